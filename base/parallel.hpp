// Runs work on several threads. The file is header-only because the command-line tool uses it and sees no other
// internal part of the library.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#ifdef __linux__
#include <sched.h>
#endif

namespace cubit {

/// The number of processors that this thread may run on, at least 1.
inline std::size_t processors() {
#ifdef __linux__
  // glibc counts all processors of the machine, even if taskset or a container allows only some of them. The call fails
  // on machines with more than 1024 processors.
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof allowed, &allowed) == 0) return static_cast<std::size_t>(CPU_COUNT(&allowed));
#endif
  return std::max(1U, std::thread::hardware_concurrency());
}

/// Calls work(0) on this thread and work(1) … work(threads - 1) on other threads. If the system provides fewer threads,
/// some calls do not happen, so each call must be able to do all of the work. Rethrows the first exception after all
/// threads have ended. `Thread` is a parameter for tests.
template <class Thread = std::thread, class Work>
void on_threads(std::size_t threads, Work&& work) {
  std::exception_ptr failure;
  std::mutex failure_mutex;
  const auto guarded = [&](std::size_t worker) {
    try {
      work(worker);
    } catch (...) {
      const std::lock_guard lock(failure_mutex);
      if (!failure) failure = std::current_exception();
    }
  };
  std::vector<Thread> helpers;
  helpers.reserve(threads);
  try {
    while (helpers.size() + 1 < threads) helpers.emplace_back(guarded, helpers.size() + 1);
  } catch (const std::exception&) {  // no more threads, or no memory for one: the existing threads do the work
  }
  guarded(0);
  for (Thread& helper : helpers) helper.join();
  if (failure) std::rethrow_exception(failure);
}

/// Calls body(i) for every i below `count`, in no particular order, on as many threads as processors() counts.
/// Rethrows the first exception after all threads have ended. A thread whose body throws takes no further items.
/// A thread takes `block` neighbouring items at a time; if items are small, a block should be worth starting a thread.
template <class Thread = std::thread, class Body>
void parallel_for(std::int64_t count, Body&& body, std::int64_t block = 1) {
  const std::int64_t blocks = (count + block - 1) / block;
  std::atomic<std::int64_t> next{0};
  on_threads<Thread>(std::min(static_cast<std::size_t>(blocks), processors()), [&](std::size_t) {
    for (std::int64_t taken = next++; taken < blocks; taken = next++) {
      const std::int64_t end = std::min(count, (taken + 1) * block);
      for (std::int64_t i = taken * block; i < end; ++i) body(i);
    }
  });
}

}  // namespace cubit
