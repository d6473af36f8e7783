// Proves: the report is read for the requested entry point, other lines of the log are ignored, and spills of called
// functions count. The logs below were written by ptxas of NVRTC 13.0.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.hpp"
#include "runtime/compiler/nvrtc.hpp"

namespace cubit::runtime {
namespace {

constexpr std::string_view kTwoEntries =
    R"(small.cuh(3): warning #177-D: variable "registers" was declared but never referenced

ptxas info    : 4 bytes gmem, 24 bytes cmem[4]
ptxas info    : Compiling entry function 'second' for 'sm_90a'
ptxas info    : Function properties for second
ptxas         .     1360 bytes stack frame, 1744 bytes spill stores, 1780 bytes spill loads
ptxas info    : Used 32 registers, used 1 barriers, 1360 bytes cumulative stack size
ptxas info    : Compile time = 94.857 ms
ptxas info    : Function properties for _Z4deepPfi
ptxas         .     0 bytes stack frame, 620 bytes spill stores, 756 bytes spill loads
ptxas info    : Compiling entry function 'first' for 'sm_90a'
ptxas info    : Function properties for first
ptxas         .     256 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 80 registers, used 2 barriers, 320 bytes cumulative stack size, 128 bytes smem, 364 bytes cmem[0]
ptxas info    : Compile time = 21.643 ms
ptxas info    : Function properties for _Z4deepPfi
ptxas         .     0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
)";

TEST(ResourceReportTest, ReadsOneEntryWithoutItsNeighbours) {
  const ResourceReport expected{.registers = 80,
                                .spill_store_bytes = 0,
                                .spill_load_bytes = 0,
                                .stack_bytes = 320,
                                .static_shared_memory = 128,
                                .barriers = 2};
  EXPECT_EQ(parse_resource_report(kTwoEntries, "first"), expected);
}

TEST(ResourceReportTest, SpillsOfCalledFunctionsCount) {
  const ResourceReport expected{.registers = 32,
                                .spill_store_bytes = 1744 + 620,
                                .spill_load_bytes = 1780 + 756,
                                .stack_bytes = 1360,
                                .static_shared_memory = 0,
                                .barriers = 1};
  EXPECT_EQ(parse_resource_report(kTwoEntries, "second"), expected);
}

TEST(ResourceReportTest, OneLineLogWithoutFinalNewline) {
  const auto report = parse_resource_report(
      "ptxas info    : Compiling entry function 'k' for 'sm_75'\nptxas info    : Used 10 registers, 352 bytes cmem[0]",
      "k");
  EXPECT_EQ(report, ResourceReport{.registers = 10});
}

TEST(ResourceReportTest, NamesAreComparedWhole) {
  for (const std::string_view name : {"firs", "first2", "", "_Z4deepPfi", "First"}) {
    EXPECT_THROW(parse_resource_report(kTwoEntries, name), Failure) << name;
  }
}

TEST(ResourceReportTest, EveryTruncationIsAReportOrAFailureOfOurs) {
  for (std::size_t length = 0; length < kTwoEntries.size(); ++length) {
    try {
      static_cast<void>(parse_resource_report(kTwoEntries.substr(0, length), "first"));
    } catch (const Failure& failure) {
      EXPECT_THAT(failure.status(), testing::AnyOf(Status::internal, Status::invalid_argument)) << length;
    }
  }
}

std::string refusal(std::string_view log, std::string_view entry_point) {
  try {
    static_cast<void>(parse_resource_report(log, entry_point));
  } catch (const Failure& failure) {
    EXPECT_EQ(failure.status(), Status::invalid_argument);
    return failure.what();
  }
  return "accepted";
}

TEST(ResourceReportTest, AnEntryPointThatTheSourceDoesNotDefineIsTheCallersMistakeAndTheOthersAreNamed) {
  EXPECT_EQ(refusal(kTwoEntries, "third"),
            "entry point \"third\": the source compiles and defines no extern \"C\" __global__ function of this name; "
            "entry points that it does define: second, first");
  // The log of NVRTC 13.0 for a source without kernels.
  EXPECT_EQ(refusal("ptxas info    : 0 bytes gmem\n", "k"),
            "entry point \"k\": the source compiles and defines no extern \"C\" __global__ function of this name; the "
            "template defines no __global__ function");
}

TEST(ResourceReportTest, PtxHasItsEntryPointOrTheOthersAreNamed) {
  constexpr std::string_view kPtx =
      ".visible .entry first(\n.param .u64 a\n)\n{ret;}\n.visible .entry second()\n{ret;}\n";
  EXPECT_NO_THROW(require_entry(kPtx, "first"));
  EXPECT_NO_THROW(require_entry(kPtx, "second"));
  for (const std::string_view name : {"third", "firs", "", "first("}) {
    try {
      require_entry(kPtx, name);
      ADD_FAILURE() << name;
    } catch (const Failure& failure) {
      EXPECT_EQ(failure.status(), Status::invalid_argument);
      EXPECT_THAT(failure.what(), testing::HasSubstr("entry points that it does define: first, second"));
    }
  }
}

TEST(ResourceReportTest, NumbersThatOverflowAreNotTaken) {
  const auto report = parse_resource_report(
      "ptxas info : Compiling entry function 'k' for 'sm_75'\nptxas info : Used 10 registers, 99999999999 bytes smem\n"
      "ptxas . 0 bytes stack frame, 2147483647 bytes spill stores, 0 bytes spill loads\n"
      "ptxas . 0 bytes stack frame, 2147483647 bytes spill stores, 0 bytes spill loads\n",
      "k");
  EXPECT_EQ(report.static_shared_memory, 0);
  EXPECT_EQ(report.spill_store_bytes, 2147483647);
}

TEST(ResourceReportTest, AMissingReportIsOurBugAndSaysWhatIsNeeded) {
  try {
    static_cast<void>(parse_resource_report("", "gqa_decode"));
    FAIL() << "accepted";
  } catch (const Failure& failure) {
    EXPECT_EQ(failure.status(), Status::internal);
    EXPECT_THAT(failure.what(), testing::HasSubstr("gqa_decode"));
    EXPECT_THAT(failure.what(), testing::HasSubstr("--ptxas-options=-v"));
  }
}

}  // namespace
}  // namespace cubit::runtime
