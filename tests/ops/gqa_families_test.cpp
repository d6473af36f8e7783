// Kernel families of gqa_decode: which one is chosen for a descriptor and an architecture, and why the others are not.
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "tests/support/gqa_plans.hpp"

namespace cubit::ops {
namespace {

std::string family_of(const GqaDecode& descriptor, const codegen::Architecture& architecture) {
  return tests::gqa_kernel_of(descriptor, architecture)->report().family;
}
std::string family_of(const char* text, const char* architecture) {
  return tests::gqa_kernel_of(text, architecture)->report().family;
}

TEST(GqaPlan, OneFormatOnlyIsWhyFamilySm90RefusesTwo) {
  const auto kernel = tests::gqa_kernel_of("gqa_decode:value=int4_rows", "sm_90a");
  const std::vector<Rejection>& rejections = kernel->report().rejections;
  ASSERT_EQ(rejections.size(), 2u);
  EXPECT_EQ(rejections[0].family, "sm90_gqa_decode");
  EXPECT_EQ(rejections[0].why, "its keys and values have one format and one head_dim");
  EXPECT_EQ(rejections[1].why, "the query is bf16");
}

TEST(GqaPlan, RefusesAnArchitectureWithoutItsInstructions) {
  try {
    find_operator("gqa_decode").specialise("gqa_decode", codegen::find_architecture("sm_75"));
    FAIL();
  } catch (const Failure& failure) {
    EXPECT_EQ(failure.status(), Status::unsupported);
    EXPECT_STREQ(failure.what(),
                 "gqa_decode for sm_75: no kernel family runs there (sm80_gqa_decode: it needs cp.async, which sm_80 "
                 "brought; sm90_gqa_decode: it needs cp.async.bulk.tensor, which sm_90 brought; sm75_gqa_decode: the "
                 "query is bf16); accepted: sm_80 and later; sm_75 with query=fp16, output=fp16 and a cache without "
                 "bf16");
  }
}

TEST(GqaPlan, FamilySm75RunsEverywhereAndIsChosenWhereNoOtherDoes) {
  const GqaDecode fp16{.kv = KvFormat::fp16, .query = Element::fp16, .output = Element::fp16};
  GqaDecode named = fp16;
  named.family = "sm75";
  for (const codegen::Architecture& architecture : codegen::architectures()) {
    EXPECT_EQ(family_of(named, architecture), "sm75_gqa_decode") << architecture.name;
    EXPECT_EQ(family_of(fp16, architecture) == "sm75_gqa_decode", architecture.name == "sm_75") << architecture.name;
  }
}

/// Bytes: what was timed, bench/notes/gqa_decode.md.
TEST(GqaPlan, FamilySm90IsChosenWhereItWasFaster) {
  for (const char* text :
       {"gqa_decode:heads_per_kv=8,kv=fp8_e4m3", "gqa_decode:kv=int8_split,scales=token,scale_type=fp16",
        "gqa_decode:kv=fp8_e5m2,scales=tensor", "gqa_decode:heads_per_kv=4,kv=int8_split,cache=paged"}) {
    EXPECT_EQ(family_of(text, "sm_90a"), "sm90_gqa_decode") << text;
    EXPECT_EQ(family_of(text, "sm_100a"), "sm80_gqa_decode") << text;
  }
  for (const char* text : {"gqa_decode:heads_per_kv=9,kv=fp8_e4m3", "gqa_decode:head_dim=256,kv=int8_split",
                           "gqa_decode:kv=int8_split,groups=2,scales=group", "gqa_decode:kv=fp8_e4m3,alignment=8"}) {
    EXPECT_EQ(family_of(text, "sm_90a"), "sm80_gqa_decode") << text;
  }
}

TEST(GqaPlan, FamilySm90IsChosenForRowsThatFollowOneAnother) {
  for (const char* text :
       {"gqa_decode:heads_per_kv=8,kv=int4_rows", "gqa_decode:heads_per_kv=4,kv=int4_rows,groups=2"}) {
    EXPECT_EQ(family_of(text, "sm_90a"), "sm90_gqa_decode") << text;
    EXPECT_EQ(family_of(text, "sm_100a"), "sm80_gqa_decode") << text;
  }
  for (const char* text : {"gqa_decode:kv=int4_rows,alignment=16", "gqa_decode:kv=int4_rows,cache=paged",
                           "gqa_decode:heads_per_kv=9,kv=int4_rows", "gqa_decode:kv=int4_rows,groups=4,alignment=4"}) {
    EXPECT_EQ(family_of(text, "sm_90a"), "sm80_gqa_decode") << text;
  }
}

/// What `cubit explain` says of family sm90, which would have run.
TEST(GqaPlan, SaysWhyFamilySm90IsNotTheFasterOne) {
  struct Case {
    const char* text;
    const char* architecture;
    const char* why;
  };
  for (const Case& one :
       {Case{"gqa_decode", "sm_100a", "it was timed on sm_90 alone"},
        Case{"gqa_decode:kv=int4_rows,groups=4", "sm_90", "packed words were timed where registers change hands alone"},
        Case{"gqa_decode:kv=fp8_e4m3,head_dim=256", "sm_90a",
             "bytes were timed with 128 channels and without groups alone"},
        Case{"gqa_decode:cache=paged,soft_cap=true", "sm_90a",
             "of pages plain scores of one query token alone were timed in it"},
        Case{"gqa_decode:kv=int8_split,alibi=true", "sm_90a", "of bytes plain scores alone were timed in it"},
        Case{"gqa_decode:heads_per_kv=64,kv=int4_rows,groups=4", "sm_90a",
             "family sm80 is faster with 64 columns (heads_per_kv times query_tokens; sm90 up to 8)"},
        Case{"gqa_decode:family=sm80", "sm_90a", "the descriptor names another"}}) {
    const auto kernel = tests::gqa_kernel_of(one.text, one.architecture);
    EXPECT_EQ(kernel->report().family, "sm80_gqa_decode") << one.text;
    EXPECT_EQ(kernel->report().rejections.front().why, one.why) << one.text;
  }
}

TEST(GqaPlan, AFamilyThatIsNamedSaysWhatItNeeds) {
  const auto why_not = [](std::string_view text) -> std::string {
    try {
      tests::gqa_kernel_of(text, "sm_75");
      return "";
    } catch (const Failure& failure) {
      EXPECT_EQ(failure.status(), Status::unsupported);
      return failure.what();
    }
  };
  EXPECT_EQ(why_not("gqa_decode:kv=fp16,query=fp16,output=fp16,family=sm80"),
            "gqa_decode:kv=fp16,query=fp16,family=sm80 for sm_75: family=sm80: it needs cp.async, "
            "which sm_80 brought; accepted: sm_80 and later, or leave family out");
  // Leaving it out would not do.
  EXPECT_EQ(why_not("gqa_decode:family=sm80"),
            "gqa_decode:family=sm80 for sm_75: family=sm80: it needs cp.async, which sm_80 brought; accepted: sm_80 "
            "and later; without family: sm_80 and later; sm_75 with query=fp16, output=fp16 and a cache without bf16");
}

TEST(GqaPlan, SaysWhyOtherFamiliesWereNotChosen) {
  for (const char* name : tests::kGqaArchitectures) {
    const auto kernel = tests::gqa_kernel_of(GqaDecode{}, codegen::find_architecture(name));
    const PlanReport& report = kernel->report();
    EXPECT_EQ(report.family, name == std::string_view("sm_90a") ? "sm90_gqa_decode" : "sm80_gqa_decode");
    ASSERT_EQ(report.rejections.size(), 2u);
    for (const Rejection& rejection : report.rejections) {
      EXPECT_NE(rejection.family, report.family);
      EXPECT_FALSE(rejection.why.empty());
    }
  }
}

}  // namespace
}  // namespace cubit::ops
