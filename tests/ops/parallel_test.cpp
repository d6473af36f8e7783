// Proves four properties of parallel_for and on_threads: every item is handled once, the first exception is rethrown,
// the work is done even if the machine starts only some threads, or none, and processors that the thread may not run on
// are not counted.
#include "base/parallel.hpp"

#include <gtest/gtest.h>

#include <stdexcept>
#include <system_error>

namespace cubit {
namespace {

/// Starts `budget` threads, then throws as std::thread does when the machine has no more threads.
class ScarceThread {
 public:
  static inline int budget = 0;

  template <class... Arguments>
  explicit ScarceThread(Arguments&&... arguments) {
    if (budget-- <= 0) throw std::system_error(std::make_error_code(std::errc::resource_unavailable_try_again));
    thread_ = std::thread(std::forward<Arguments>(arguments)...);
  }
  void join() { thread_.join(); }

 private:
  std::thread thread_;
};

TEST(Parallel, EveryItemOnce) {
  for (const std::int64_t count : {0, 1, 2, 1000}) {
    std::vector<std::atomic<int>> calls(static_cast<std::size_t>(count));
    for (const std::int64_t block : {1, 7, 1000, 1001})
      parallel_for(
          count, [&](std::int64_t i) { ++calls[static_cast<std::size_t>(i)]; }, block);
    for (const auto& times : calls) EXPECT_EQ(times, 4);
  }
}

#ifdef __linux__
TEST(Parallel, CountsTheProcessorsThatTheThreadMayRunOn) {
  std::thread([] {
    const int own = sched_getcpu();
    ASSERT_GE(own, 0);
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(own, &one);
    ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
    EXPECT_EQ(processors(), 1u);
  }).join();
  EXPECT_GE(processors(), 1u);
}
#endif

TEST(Parallel, WhereNoThreadStartsThoseThatAreThereDoTheWork) {
  for (const int budget : {0, 1, 3}) {
    ScarceThread::budget = budget;
    std::atomic<int> next{0};
    std::atomic<int> done{0};
    std::atomic<int> workers{0};
    on_threads<ScarceThread>(16, [&](std::size_t) {
      ++workers;
      while (next++ < 100) ++done;
    });
    EXPECT_EQ(done, 100);
    EXPECT_EQ(workers, budget + 1);
  }
}

TEST(Parallel, WorkersAreNumbered) {
  std::vector<std::atomic<int>> calls(5);
  on_threads(calls.size(), [&](std::size_t worker) { ++calls[worker]; });
  for (const auto& times : calls) EXPECT_EQ(times, 1);
}

TEST(Parallel, AnExceptionComesOutAfterAllThreadsHaveEnded) {
  std::atomic<int> ended{0};
  const auto work = [&](std::size_t worker) {
    if (worker == 1) throw std::runtime_error("worker 1");
    ++ended;
  };
  EXPECT_THROW(on_threads(4, work), std::runtime_error);
  EXPECT_EQ(ended, 3);
  ScarceThread::budget = 0;
  const auto refuse = [](std::int64_t) { throw std::runtime_error("item"); };
  EXPECT_THROW(parallel_for<ScarceThread>(8, refuse), std::runtime_error);
}

}  // namespace
}  // namespace cubit
