// Tests of the time. PTX ISA, "Special Registers", %globaltimer.
#include <chrono>

#include "tests/runtime_cpu/harness.hpp"

namespace cubit::tests {
namespace {

// The machine's clock in nanoseconds, in all 64 bits. The clock never goes back, and a loop that waits for it ends.
TEST(Timer, GoesOn) {
  const auto before = std::chrono::steady_clock::now().time_since_epoch();
  const std::vector<std::uint32_t> words = run(
      {.body = "mov.u64 %d0, %globaltimer; add.u64 %d1, %d0, 50000; $again: mov.u64 %d2, %globaltimer;"
               " setp.lt.u64 %p0, %d2, %d1; @%p0 bra $again; st.global.u64 [%out], %d0; st.global.u64 [%out+8], %d2;",
       .threads = 1},
      {}, 4);
  const auto after = std::chrono::steady_clock::now().time_since_epoch();
  const auto number = [&](std::size_t i) { return words[i] | std::uint64_t{words[i + 1]} << 32; };
  const auto nanoseconds = [](auto time) {
    return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(time).count());
  };
  EXPECT_GE(number(0), nanoseconds(before));
  EXPECT_GE(number(2), number(0) + 50000);
  EXPECT_LE(number(2), nanoseconds(after));
}

// The timer is read under a guard and by diverged lanes. All other lanes keep their values.
TEST(Timer, IsReadByTheLanesThatAsk) {
  const std::string odd = "and.b32 %r1, %t, 1; setp.eq.u32 %p0, %r1, 1; mov.u64 %d0, 7; mov.u64 %d1, 7;";
  const std::string guarded = odd + "@%p0 mov.u64 %d0, %globaltimer;";
  const std::string parted = odd + "@!%p0 bra $meet; mov.u64 %d0, %globaltimer; $meet:";
  for (const std::string& body : {guarded, parted}) {
    const auto words = run({.body = body + " setp.eq.u64 %p1, %d0, 7; selp.u32 %r0, 1, 0, %p1;"
                                           " mad.wide.u32 %out, %t, 4, %out; st.global.u32 [%out], %r0;"},
                           {}, kLanes);
    for (unsigned lane = 0; lane < kLanes; ++lane) EXPECT_EQ(words[lane], lane % 2 == 0 ? 1u : 0u) << body << lane;
  }
}

}  // namespace
}  // namespace cubit::tests
