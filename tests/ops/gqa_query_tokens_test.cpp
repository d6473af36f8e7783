// gqa_decode with several query tokens per sequence: which positions a token sees, how plans, launches and problems use
// query tokens, and what they refuse. No kernel runs here; tests/cover checks what kernels compute.
#include <cubit/gqa_decode.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <limits>

#include "check/gqa_decode/problem.hpp"
#include "ops/gqa_decode/gqa_decode.hpp"
#include "tests/support/gqa_launches.hpp"
#include "tests/support/refusals.hpp"

namespace cubit::ops {
namespace {

using tests::address;
using tests::refusal_of;
using tests::sm80_plan_of;
using tests::sm90_plan_of;
constexpr auto parameters_of = tests::gqa_parameters_of;

/// The positions that query token `token` sees, one character per position.
std::string seen(const char* text, int length, int token, std::uint32_t mask = 0) {
  const GqaDecode descriptor = gqa_decode::parse(text);
  std::string positions;
  for (int position = 0; position < length; ++position)
    positions += check::gqa_decode::attends_to(descriptor, length, token, mask, position) ? '#' : '.';
  return positions;
}

TEST(GqaQueryTokens, CausalOnesSeeThemselvesAndAllBefore) {
  EXPECT_EQ(seen("gqa_decode", 3, 0), "###");
  const char* const four = "gqa_decode:query_tokens=4";
  EXPECT_EQ(seen(four, 6, 0), "###...");
  EXPECT_EQ(seen(four, 6, 2), "#####.");
  EXPECT_EQ(seen(four, 6, 3), "######");
  EXPECT_EQ(seen(four, 2, 1), "..") << "it stands before the sequence";
  EXPECT_EQ(seen(four, 2, 2), "#.");
  EXPECT_EQ(check::gqa_decode::query_position(gqa_decode::parse(four), 2, 1), -1);
}

TEST(GqaQueryTokens, ATreeNamesWhatTheySeeOfOneAnother) {
  const char* const three = "gqa_decode:query_tokens=3,mask=tree";
  EXPECT_EQ(seen(three, 5, 0, 0b001), "###..");
  EXPECT_EQ(seen(three, 5, 2, 0b101), "###.#");
  EXPECT_EQ(seen(three, 5, 1, 0b100), "##..#") << "a query token without its own mask bit does not see itself";
  EXPECT_EQ(seen(three, 5, 1, 0xfffffff8), "##...") << "bits that are no query token's";
  EXPECT_EQ(seen(three, 2, 0, 0b111), "..") << "it stands before the sequence";
  EXPECT_EQ(seen(three, 2, 2, 0b111), "##");
}

TEST(GqaQueryTokens, TheReferenceLeavesOutWhatIsNotSeen) {
  const GqaDecode descriptor = gqa_decode::parse("gqa_decode:head_dim=64,kv=fp16");
  std::vector<std::uint16_t> rows(3 * 64, 0);
  std::fill_n(rows.begin() + 64, 64, 0x4000);   // 2
  std::fill_n(rows.begin() + 128, 64, 0x4400);  // 4
  const check::gqa_decode::HeadRows cache = {
      [&](int token) { return reinterpret_cast<const char*>(rows.data()) + 128 * token; }};
  const std::vector<double> query(64, 0.0);
  const auto of = [&](const std::function<bool(int)>& is_visible) {
    return check::gqa_decode::reference_head(descriptor, query.data(), cache, cache, 3, 1.0, {}, is_visible);
  };
  EXPECT_DOUBLE_EQ(of(nullptr).output[7], 2);
  const auto two = of([](int position) { return position != 1; });
  EXPECT_DOUBLE_EQ(two.output[7], 2);
  EXPECT_DOUBLE_EQ(two.lse, std::log(2.0));
  EXPECT_DOUBLE_EQ(of([](int position) { return position == 2; }).output[7], 4);
  const auto none = of([](int) { return false; });
  EXPECT_EQ(none.output[7], 0);
  EXPECT_EQ(none.lse, -std::numeric_limits<double>::infinity());
}

TEST(GqaQueryTokens, HeadsOfAllOfThemShareBlocks) {
  const auto plan = sm80_plan_of("gqa_decode:heads_per_kv=3,query_tokens=5", "sm_80");
  EXPECT_EQ(plan.heads(), 15);
  EXPECT_EQ(plan.heads_per_block, 15);
  EXPECT_EQ(plan.head_groups, 1);
  for (const char* text : {"gqa_decode:heads_per_kv=64,query_tokens=16", "gqa_decode:heads_per_kv=7,query_tokens=9",
                           "gqa_decode:head_dim=256,heads_per_kv=64,query_tokens=16,mask=tree"}) {
    const auto many = sm80_plan_of(text, "sm_80");
    const int before_last = (many.head_groups - 1) * many.heads_per_block;
    EXPECT_TRUE(before_last < many.heads() && many.heads() <= before_last + many.heads_per_block) << text;
  }
}

TEST(GqaQueryTokens, ManyColumnsOfUnpackedRowsShareABlockAndItsQueryOperands) {
  for (const char* architecture : {"sm_80", "sm_90a", "sm_120"}) {
    for (const char* format : {"kv=int4_rows,groups=4", "kv=fp8_e4m3", "kv=int8_split", "value=int4_rows"}) {
      const std::string text = std::string("gqa_decode:heads_per_kv=8,query_tokens=4,") + format;
      const auto plan = sm80_plan_of(text, architecture);
      EXPECT_EQ(plan.head_groups, 1) << text;
      EXPECT_TRUE(plan.query_is_shared) << text;
      EXPECT_GE(plan.shared_memory, plan.ring_bytes(plan.stages) + plan.query_bytes()) << text;
    }
    const auto plain = sm80_plan_of("gqa_decode:heads_per_kv=8,query_tokens=4,family=sm80", architecture);
    EXPECT_EQ(plain.head_groups, 2) << "rows of bf16 are operands as they are";
    EXPECT_FALSE(plain.query_is_shared);
    EXPECT_EQ(plain.query_bytes(), 0);
  }
  const auto few = sm80_plan_of("gqa_decode:heads_per_kv=8,kv=int4_rows,groups=4,query_tokens=2,family=sm80", "sm_90a");
  EXPECT_FALSE(few.query_is_shared) << "registers hold them";
}

/// Many query rows are the M of warpgroup MMAs: up to 64 rows, a quarter of them for each warp.
TEST(GqaQueryTokens, ManyColumnsOf16BitCachesAreRowsOfProducts) {
  struct Case {
    const char* text;
    int head_groups;
    int heads_per_block;
  };
  for (const auto& [text, head_groups, heads_per_block] :
       {Case{"gqa_decode:heads_per_kv=64", 1, 64}, Case{"gqa_decode:heads_per_kv=17,kv=fp16", 1, 20},
        Case{"gqa_decode:heads_per_kv=8,query_tokens=4,mask=tree", 1, 32},
        Case{"gqa_decode:heads_per_kv=48,query_tokens=3,head_dim=64", 3, 48},
        Case{"gqa_decode:heads_per_kv=64,query_tokens=16,cache=paged", 16, 64},
        Case{"gqa_decode:heads_per_kv=33,head_dim=192,alibi=true", 1, 36}}) {
    SCOPED_TRACE(text);
    const auto plan = sm90_plan_of(text, "sm_90a");
    EXPECT_TRUE(plan.heads_are_m);
    EXPECT_EQ(plan.query_groups, 4);
    EXPECT_EQ(plan.head_groups, head_groups);
    EXPECT_EQ(plan.heads_per_block, heads_per_block);
    EXPECT_LE(plan.heads_per_warp, 16);
    // Rows of each warpgroup consist of swizzled runs of 128 bytes, as wgmma reads them.
    EXPECT_EQ(plan.stage.pitch, 128);
    EXPECT_EQ(plan.stage.swizzle.bits, 3);
    EXPECT_EQ(plan.stage.rows * plan.stage.pitch % 1024, 0);
  }
  for (const char* text :
       {"gqa_decode:heads_per_kv=16", "gqa_decode:heads_per_kv=64,kv=int4_rows,groups=4",
        "gqa_decode:heads_per_kv=64,kv=fp8_e4m3", "gqa_decode:heads_per_kv=64,head_dim=96",
        "gqa_decode:heads_per_kv=64,head_dim=192,query=fp16", "gqa_decode:heads_per_kv=64,head_dim=256"}) {
    EXPECT_FALSE(sm90_plan_of(text, "sm_90a").heads_are_m) << text;
  }
  EXPECT_FALSE(sm90_plan_of("gqa_decode:heads_per_kv=64,family=sm90", "sm_90").heads_are_m) << "there is no wgmma";
  EXPECT_FALSE(sm90_plan_of("gqa_decode:heads_per_kv=64,family=sm90", "sm_100a").heads_are_m) << "there is no wgmma";
}

/// Query rows that one warp's registers do not hold belong to other warps, which read the same rows of the cache.
TEST(GqaQueryTokens, WarpsOfFamilySm90ShareRows) {
  struct Case {
    const char* text;
    int query_groups;
    int head_groups;
  };
  for (const auto& [text, query_groups, head_groups] :
       {Case{"gqa_decode:heads_per_kv=4,query_tokens=4,family=sm90", 2, 1},
        Case{"gqa_decode:heads_per_kv=8,query_tokens=4,family=sm90", 4, 1},
        Case{"gqa_decode:heads_per_kv=8,query_tokens=8,mask=tree,family=sm90", 4, 1},
        Case{"gqa_decode:heads_per_kv=5,query_tokens=5,family=sm90", 4, 1},
        Case{"gqa_decode:heads_per_kv=8,query_tokens=16,family=sm90", 4, 2},
        Case{"gqa_decode:heads_per_kv=8,query_tokens=4,kv=int4_rows,groups=4,family=sm90", 4, 1}}) {
    const auto plan = sm90_plan_of(text, "sm_90a");
    EXPECT_EQ(plan.query_groups, query_groups) << text;
    EXPECT_EQ(plan.head_groups, head_groups) << text;
    EXPECT_EQ(plan.heads_per_warp * plan.query_groups, plan.heads_per_block) << text;
    EXPECT_GE(plan.heads_per_block * plan.head_groups, plan.heads()) << text;
    EXPECT_EQ(plan.stage.row_bytes * plan.stage.rows,
              plan.token_warps() * 16 * plan.tiles_per_stage * plan.descriptor.row_bytes())
        << text;
    EXPECT_LE(plan.shared_memory, codegen::find_architecture("sm_90a").shared_memory_per_block) << text;
  }
}

TEST(GqaQueryTokens, APlanSaysWhatTheySee) {
  EXPECT_EQ(tests::value_of(tests::gqa_kernel_of("gqa_decode:query_tokens=2", "sm_90a"), "query_tokens"), "2, causal");
}

/// Arguments with one sequence of 4 query tokens and one head, at made-up addresses.
cubit_gqa_decode_arguments made_up_arguments() {
  cubit_gqa_decode_arguments arguments = tests::made_up_gqa_arguments({.query_heads = 4});
  arguments.query_token_stride = 128;
  arguments.output_token_stride = 256;
  return arguments;
}

TEST(GqaQueryTokens, LaunchesTakeStridesAndTheMask) {
  auto arguments = made_up_arguments();
  arguments.mask = address<std::int32_t>(0x5004);
  arguments.mask_stride = 7;
  const auto parameters = parameters_of("gqa_decode:query_tokens=4,mask=tree", arguments);
  EXPECT_EQ(parameters.query_token_stride, 256);
  EXPECT_EQ(parameters.output_token_stride, 512);
  EXPECT_EQ(parameters.mask, address(0x5004));
  EXPECT_EQ(parameters.mask_stride, 7);
}

TEST(GqaQueryTokens, LaunchesRefuseWhatDoesNotFit) {
  const char* const tree = "gqa_decode:query_tokens=4,mask=tree";
  const char* const causal = "gqa_decode:query_tokens=4";
  auto arguments = made_up_arguments();
  const auto refused = [&](const char* text) { return refusal_of([&] { parameters_of(text, arguments); }); };
  EXPECT_EQ(refused(tree), "mask = NULL: the tensor is needed");
  arguments.mask = address<std::int32_t>(0x5002);
  EXPECT_EQ(refused(tree), "mask at 0x5002: the address is not a multiple of 4 bytes; align it, and pad its rows");
  for (const char* text : {causal, "gqa_decode"}) {
    EXPECT_EQ(
        refused(text),
        "mask at 0x5002: the descriptor does not have mask=tree; give NULL, or ask for mask=tree in the descriptor");
  }
  arguments = made_up_arguments();
  arguments.output_token_stride = 130;
  EXPECT_EQ(
      refused(causal),
      "output token stride 0 of 260 bytes: it is not a multiple of 16 bytes; align it and pad its rows, or ask for "
      "a smaller alignment in the descriptor");
  EXPECT_EQ(refused("gqa_decode"), "accepted") << "with one query token it is not read";
  arguments = made_up_arguments();
  arguments.query_token_stride = 1;
  EXPECT_EQ(
      refused(causal),
      "query token stride 0 of 2 bytes: it is not a multiple of 16 bytes; align it and pad its rows, or ask for a "
      "smaller alignment in the descriptor");
}

/// A problem with two sequences, 3 query tokens and 2 heads of 64 channels.
struct Case {
  std::vector<std::uint16_t> data = std::vector<std::uint16_t>(std::size_t{2} * 9 * 2 * 64, 0);
  std::vector<std::int32_t> mask = {1, 3, 5, 1, 3, 5, 0, 0};  // two more words than needed, for shapes that do not fit
  std::string text = "gqa_decode:head_dim=64,heads_per_kv=2,query_tokens=3,mask=tree";
  std::vector<check::Tensor> tensors = {{"query", "BF16", {2, 3, 2, 64}, {}, data.data()},
                                        {"key", "BF16", {2, 9, 1, 64}, {}, data.data()},
                                        {"value", "BF16", {2, 9, 1, 64}, {}, data.data()},
                                        {"mask", "I32", {2, 3}, {}, mask.data()}};
  Numbers numbers = {{"lse", 1}};
  std::unique_ptr<check::Problem> problem() const { return check::find_problems(text).problem(text, tensors, numbers); }
};

TEST(GqaQueryTokens, ProblemsHaveADimensionOfThem) {
  const Case one;
  const auto problem = one.problem();
  ASSERT_EQ(problem->outputs().size(), 2u);
  EXPECT_EQ(problem->outputs()[0].shape, (std::vector<std::int64_t>{2, 3, 2, 64}));
  EXPECT_EQ(problem->outputs()[1].shape, (std::vector<std::int64_t>{2, 3, 2}));
  EXPECT_EQ(problem->operations(), 4.0 * 2 * 9 * 3 * 2 * 64);
  EXPECT_EQ(problem->bytes_read(), 2u * 2 * 9 * 128 + 2 * 3 * 2 * 128 + 2 * 3 * 4);
  std::vector<void*> addresses;
  for (std::uintptr_t i = 1; i <= 6; ++i) addresses.push_back(address(0x1000 * i));
  cubit_gqa_decode_arguments arguments;
  const auto bytes = problem->arguments(addresses);
  ASSERT_EQ(bytes.size(), sizeof arguments);
  std::memcpy(&arguments, bytes.data(), sizeof arguments);
  EXPECT_EQ(arguments.query_strides[0], 3 * 2 * 64);
  EXPECT_EQ(arguments.query_token_stride, 2 * 64);
  EXPECT_EQ(arguments.output_token_stride, 2 * 64);
  EXPECT_EQ(arguments.mask, address(0x4000));
  EXPECT_EQ(arguments.mask_stride, 3);
}

TEST(GqaQueryTokens, TheComparisonNamesTheToken) {
  const Case one;
  const auto problem = one.problem();
  std::vector<std::uint16_t> output(std::size_t{2} * 3 * 2 * 64, 0);
  std::vector<float> lse(std::size_t{2} * 3 * 2);
  // All scores are 0, so that a softmax denominator counts the positions that are seen: 6, and the bits of the mask.
  for (std::size_t item = 0; item < lse.size(); ++item)
    lse[item] = std::log(static_cast<float>(item / 2 % 3 == 0 ? 7 : 8));
  const void* got[] = {output.data(), lse.data()};
  EXPECT_LE(problem->compare(got).error, 1e-6);
  output[((1 * 3 + 2) * 2 + 1) * 64 + 5] = 0x3f80;
  const auto bad = problem->compare(got);
  EXPECT_GT(bad.error, bad.tolerance);
  EXPECT_EQ(bad.worst, "sequence 1, query token 2, head 1");
}

TEST(GqaQueryTokens, ProblemsRefuseTensorsThatDoNotFit) {
  const auto refused = [](void (*change)(Case&)) {
    Case one;
    change(one);
    return refusal_of([&] { one.problem(); });
  };
  EXPECT_EQ(refused([](Case& c) {
              c.tensors[0].shape = {2, 2, 64};
            }),
            "tensor query [2, 2, 64]: it must have the dimensions [batch, query_tokens, query heads, head_dim]");
  EXPECT_EQ(refused([](Case& c) { c.tensors[0].shape[1] = 4; }),
            "tensor query [2, 4, 2, 64]: the descriptor has query_tokens=3; ask for query_tokens=4");
  EXPECT_EQ(refused([](Case& c) {
              c.tensors[3].shape = {2, 4};
            }),
            "tensor mask [2, 4]: it must have the dimensions [batch, query_tokens]; accepted beside the other tensors: "
            "[2, 3]");
  EXPECT_EQ(refused([](Case& c) { c.tensors[3].shape = {6}; }),
            "tensor mask [6]: it must have the dimensions [batch, query_tokens]; accepted beside the other tensors: "
            "[2, 3]");
  EXPECT_NE(refused([](Case& c) { c.tensors[3].type = "BOOL"; }).find("tensor mask of type BOOL"), std::string::npos);
  EXPECT_EQ(
      refused([](Case& c) { c.tensors.pop_back(); }),
      "tensors without mask: the descriptor has mask=tree; give mask [batch, query_tokens] = [2, 3] I32, or leave "
      "mask=tree out");
  EXPECT_EQ(refused([](Case& c) { c.text = "gqa_decode:head_dim=64,heads_per_kv=2,query_tokens=3"; }),
            "tensor mask: the descriptor does not have mask=tree; leave it out, or ask for query_tokens=2 to 16 and "
            "mask=tree");
}

TEST(GqaQueryTokens, RandomTreesAreOfAncestors) {
  const std::string text = "gqa_decode:query_tokens=16,mask=tree";
  const auto problem = check::find_problems(text).random(text, {{"batch", 5}, {"context", 20}}, 1);
  ASSERT_EQ(problem->inputs().back().name, "mask");
  const auto* words = static_cast<const std::uint32_t*>(problem->inputs().back().data);
  bool has_branches = false;
  for (int sequence = 0; sequence < 5; ++sequence, words += 16) {
    for (int token = 0; token < 16; ++token) {
      const std::uint32_t seen = words[token] & 0xffff;
      EXPECT_EQ(seen >> token, 1u) << "a query token sees itself and no later query token";
      has_branches = has_branches || seen != (2u << token) - 1;
      for (int other = 0; other < token; ++other) {
        if ((seen >> other & 1) != 0) {
          EXPECT_EQ(words[other] & 0xffff & ~seen, 0u) << "an ancestor sees nothing that its descendant does not see";
        }
      }
    }
  }
  EXPECT_TRUE(has_branches);
}

}  // namespace
}  // namespace cubit::ops
