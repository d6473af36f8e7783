// How many blocks take a sequence of family sm90, and when they are a cluster: from bounds and device alone, or as asked.
#include <cubit/gqa_decode.h>
#include <gtest/gtest.h>

#include "base/error.hpp"
#include "ops/gqa_decode/gqa_decode.hpp"

namespace cubit::ops::gqa_decode {
namespace {

constexpr const char* kSm90 = "gqa_decode:heads_per_kv=8,kv=int4_rows,groups=4,family=sm90";
constexpr const char* kSm80 = "gqa_decode:heads_per_kv=8,kv=int4_rows,groups=4,family=sm80";

runtime::DeviceFacts h200() {
  runtime::DeviceFacts facts;
  facts.architecture = &codegen::find_architecture("sm_90a");
  facts.multiprocessors = 132;
  return facts;
}

Plan plan_of(const char* text) { return make_plan(parse(text), codegen::find_architecture("sm_90a")); }

cubit_gqa_decode_arguments bounds(int batch, int max_length, int splits = 0, int merge = CUBIT_MERGE_AUTO) {
  cubit_gqa_decode_arguments arguments{};
  arguments.batch = batch;
  arguments.kv_heads = 1;
  arguments.max_length = max_length;
  arguments.splits = splits;
  arguments.merge = merge;
  return arguments;
}

TEST(GqaSplit, ClustersArePowersOfTwoThatTheArchitectureHas) {
  const Plan plan = plan_of(kSm90);
  for (const int batch : {1, 2, 3, 5, 8, 16, 31, 32, 64, 100, 128, 200, 512, 5000}) {
    for (const int length : {0, 1, 127, 129, 1000, 8192, 131072}) {
      const Split split = choose_split(plan, bounds(batch, length), h200());
      const int chunks = (length + plan.chunk_tokens() - 1) / plan.chunk_tokens();
      EXPECT_LE(split.splits, std::max(chunks, 1)) << batch << " sequences of " << length;
      if (split.clustered) {
        EXPECT_TRUE(split.splits >= 2 && split.splits <= 16 && (split.splits & (split.splits - 1)) == 0);
      }
      if (batch > 4096 && !split.clustered) {
        EXPECT_EQ(split.splits, 1) << "more sequences than counters";
      }
    }
  }
}

TEST(GqaSplit, ManySequencesNeedNoSplitAndFewLongOnesMoreThanACluster) {
  const Plan plan = plan_of(kSm90);
  EXPECT_EQ(choose_split(plan, bounds(528, 8192), h200()).splits, 1);
  const Split middle = choose_split(plan, bounds(32, 8192), h200());
  EXPECT_TRUE(middle.clustered);
  EXPECT_GE(middle.splits, 4) << "32 sequences must spread over 132 processors";
  const Split one = choose_split(plan, bounds(1, 131072), h200());
  EXPECT_FALSE(one.clustered);
  EXPECT_GT(one.splits, 100) << "one sequence must spread over the device";
}

TEST(GqaSplit, AClusterNeedsNoWorkspace) {
  const Plan plan = plan_of(kSm90);
  auto arguments = bounds(32, 8192, 8, CUBIT_MERGE_CLUSTER);
  arguments.size = sizeof arguments;
  EXPECT_EQ(workspace_bytes(plan, &arguments, h200()), 0U);
  arguments.merge = CUBIT_MERGE_WORKSPACE;
  EXPECT_GT(workspace_bytes(plan, &arguments, h200()), 0U);
}

TEST(GqaSplit, TakesWhatIsAskedFor) {
  const Plan plan = plan_of(kSm90);
  for (const int splits : {1, 2, 3, 7, 256}) {
    EXPECT_EQ(choose_split(plan, bounds(4, 8192, splits), h200()).splits, splits);
    EXPECT_FALSE(choose_split(plan, bounds(4, 8192, splits, CUBIT_MERGE_WORKSPACE), h200()).clustered);
  }
  for (const int splits : {2, 4, 8, 16}) {
    EXPECT_TRUE(choose_split(plan, bounds(4, 8192, splits, CUBIT_MERGE_CLUSTER), h200()).clustered);
  }
  EXPECT_TRUE(choose_split(plan, bounds(1, 131072, 0, CUBIT_MERGE_CLUSTER), h200()).clustered);
  EXPECT_FALSE(choose_split(plan, bounds(32, 8192, 0, CUBIT_MERGE_WORKSPACE), h200()).clustered);
  EXPECT_EQ(choose_split(plan_of(kSm80), bounds(4, 8192, 5), h200()).splits, 5);
}

struct Refused {
  const char* text;
  int splits;
  int merge;
  const char* rule;
};

TEST(GqaSplit, RefusesWhatNoKernelDoes) {
  for (const Refused& refused :
       {Refused{kSm90, -1, 0, "splits = -1: it must be from 0 to 256"},
        Refused{kSm90, 257, 0, "splits = 257: it must be from 0 to 256"},
        Refused{kSm90, 0, 3, "merge = 3: it must be CUBIT_MERGE_AUTO, _WORKSPACE or _CLUSTER"},
        Refused{kSm90, 3, CUBIT_MERGE_CLUSTER, "splits = 3: of a cluster it must be a power of two"},
        Refused{kSm90, 32, CUBIT_MERGE_CLUSTER, "splits = 32: of a cluster it must be a power of two"},
        Refused{kSm80, 8, CUBIT_MERGE_CLUSTER, "merge = 2: this kernel's family has no clusters"}}) {
    try {
      choose_split(plan_of(refused.text), bounds(1, 100, refused.splits, refused.merge), h200());
      FAIL() << "accepted: " << refused.rule;
    } catch (const Failure& failure) {
      EXPECT_EQ(failure.status(), Status::invalid_argument);
      EXPECT_NE(std::string(failure.what()).find(refused.rule), std::string::npos) << failure.what();
    }
  }
}

}  // namespace
}  // namespace cubit::ops::gqa_decode
