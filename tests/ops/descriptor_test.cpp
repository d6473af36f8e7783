// Descriptor texts: every descriptor has one canonical text that parses back to the same descriptor, and an illegal
// text is refused with the rule that it breaks.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <set>

#include "ops/gqa_decode/gqa_decode.hpp"
#include "tests/support/descriptor_texts.hpp"
#include "tests/support/gqa_descriptors.hpp"
#include "tests/support/refusals.hpp"

namespace cubit::ops {
namespace {

TEST(GqaDescriptor, EveryValueHasOneTextThatParsesBackToIt) {
  std::set<std::string> texts;
  tests::expect_one_text_each(tests::all_gqa_descriptors(), gqa_decode::parse, texts);
  const unsigned int4_caches = 3 + 2 + 4 + 2 + 3 + 4;  // group counts of head_dim 64, 96, 128, 160, 192 and 256
  const unsigned query_tokens = 5u * 4 * 2 * 15 * 2;
  EXPECT_EQ(texts.size(),
            64u * 2 * 2 * 3 * (8 * 2 + int4_caches) + 4u * 3 * 2 * 3 * 2 * (8 * 3 + int4_caches - 6) + query_tokens);
}

TEST(GqaDescriptor, EveryValueWithTwoFormatsHasOneTextThatParsesBackToIt) {
  std::set<std::string> texts;
  for (const GqaDecode& descriptor : tests::mixed_gqa_descriptors(false)) {
    const std::string text = descriptor.text();
    EXPECT_TRUE(texts.insert(text).second) << text << " stands for two values";
    EXPECT_EQ(gqa_decode::parse(text), descriptor) << text;
    EXPECT_EQ(find_operator(text).canonical(text), text);
  }
}

TEST(GqaDescriptor, OtherSpellingsOfAValueShareItsText) {
  const auto canonical = [](std::string_view text) { return gqa_decode::parse(text).text(); };
  EXPECT_EQ(canonical("gqa_decode"), "gqa_decode");
  EXPECT_EQ(canonical("gqa_decode:head_dim=128,kv=bf16,output=bf16,alignment=16"), "gqa_decode");
  EXPECT_EQ(canonical("gqa_decode:groups=4,kv=int4_rows,heads_per_kv=8"),
            "gqa_decode:heads_per_kv=8,kv=int4_rows,groups=4");
  EXPECT_EQ(canonical("gqa_decode:query=fp16,output=fp16"), "gqa_decode:query=fp16");
  EXPECT_EQ(canonical("gqa_decode:query=fp16,output=bf16"), "gqa_decode:query=fp16,output=bf16");
  EXPECT_EQ(canonical("gqa_decode:kv=int4_rows,groups=1"), "gqa_decode:kv=int4_rows");
  EXPECT_EQ(canonical("gqa_decode:query_tokens=1"), "gqa_decode");
  EXPECT_EQ(canonical("gqa_decode:mask=causal,query_tokens=4"), "gqa_decode:query_tokens=4");
  EXPECT_EQ(canonical("gqa_decode:value=bf16,value_dim=128"), "gqa_decode");
  EXPECT_EQ(canonical("gqa_decode:kv=int4_rows,groups=4,value=int4_rows,value_groups=4"),
            "gqa_decode:kv=int4_rows,groups=4");
  EXPECT_EQ(canonical("gqa_decode:kv=int4_rows,groups=4,value=int4_rows"),
            "gqa_decode:kv=int4_rows,groups=4,value=int4_rows");
  EXPECT_EQ(canonical("gqa_decode:value_dim=128,head_dim=192,kv=int8_split,value=int8_split,value_scale_type=fp16,"
                      "scale_type=fp16"),
            "gqa_decode:head_dim=192,kv=int8_split,scale_type=fp16,value_dim=128");
  EXPECT_EQ(canonical("gqa_decode:value_scales=head,value=fp8_e4m3"), "gqa_decode:value=fp8_e4m3");
  EXPECT_EQ(canonical("gqa_decode:alignment=8,mask=tree,query_tokens=16,cache=paged"),
            "gqa_decode:cache=paged,query_tokens=16,mask=tree,alignment=8");
}

TEST(GqaDescriptor, AlignmentDefaultsToWhatUnpaddedRowsAllow) {
  struct Case {
    const char* fields;
    int alignment;
  };
  for (const Case& one :
       {Case{"kv=bf16", 16}, Case{"head_dim=80,kv=fp8_e4m3", 16}, Case{"head_dim=112,kv=int8_split", 16},
        Case{"kv=int4_rows", 4}, Case{"head_dim=64,kv=int4_rows", 4}, Case{"kv=int4_rows,groups=2", 8},
        Case{"kv=int4_rows,groups=4", 16}, Case{"kv=int4_rows,groups=8", 16}, Case{"value=int4_rows", 4},
        Case{"kv=int4_rows,groups=2,value=fp8_e4m3", 8}, Case{"kv=int4_rows,groups=4,value=int4_rows", 4},
        Case{"kv=int4_rows,value_dim=64", 4}, Case{"kv=int4_rows,heads_per_kv=8,cache=paged", 4}}) {
    const std::string text = fmt::format("gqa_decode:{}", one.fields);
    const GqaDecode left_out = gqa_decode::parse(text);
    EXPECT_EQ(left_out.alignment, one.alignment) << text;
    EXPECT_EQ(left_out.text().find("alignment"), std::string::npos) << text;
    for (const int alignment : {16, 8, 4}) {
      const GqaDecode given = gqa_decode::parse(fmt::format("{},alignment={}", text, alignment));
      EXPECT_EQ(given.alignment, alignment) << text;
      EXPECT_EQ(given == left_out, alignment == one.alignment) << text;
      EXPECT_EQ(gqa_decode::parse(given.text()), given) << text;
    }
  }
}

/// A descriptor as a C++ program writes it, without text.
TEST(GqaDescriptor, AlignmentOfAStructDefaultsToTheSame) {
  GqaDecode descriptor{.heads_per_kv = 8, .kv = KvFormat::int4_rows};
  EXPECT_EQ(descriptor.text(), "gqa_decode:heads_per_kv=8,kv=int4_rows");
  EXPECT_EQ(descriptor.alignment_bytes(), 4);
  descriptor.alignment = 4;
  EXPECT_EQ(descriptor.text(), "gqa_decode:heads_per_kv=8,kv=int4_rows");
  descriptor.alignment = 16;
  EXPECT_EQ(descriptor.text(), "gqa_decode:heads_per_kv=8,kv=int4_rows,alignment=16");
}

using tests::Refused;

/// "gqa_decode, kv_append, …": the names of all operators, as an error lists them.
std::string operator_names() {
  std::string names;
  for (const Operator* op : operators()) names += (names.empty() ? "" : ", ") + std::string(op->name());
  return names;
}

class RefusedDescriptor : public ::testing::TestWithParam<Refused> {};

TEST_P(RefusedDescriptor, NamesTheRule) {
  tests::expect_refused([] { find_operator(GetParam().text).canonical(GetParam().text); }, GetParam().sentence);
}

INSTANTIATE_TEST_SUITE_P(
    Texts, RefusedDescriptor,
    ::testing::Values(
        Refused{"", "descriptor \"\": there is no operator \"\"; accepted: " + operator_names()},
        Refused{"mha:x=1", "descriptor \"mha:x=1\": there is no operator \"mha\"; accepted: " + operator_names()},
        Refused{"gqa_decode:speed=9",
                "descriptor \"gqa_decode:speed=9\": gqa_decode has no field speed; accepted fields: head_dim, "
                "heads_per_kv, kv, groups, scales, scale_type, value_dim, value, value_groups, value_scales, "
                "value_scale_type, query, output, cache, query_tokens, mask, soft_cap, "
                "alibi, score, window, sinks, alignment, family"},
        Refused{"gqa_decode:head_dim=100",
                "descriptor \"gqa_decode:head_dim=100\": 100 is not a value of head_dim; accepted: 64, 80, 96, 112, "
                "128, 160, "
                "192, 256"},
        Refused{"gqa_decode:head_dim=80,kv=int4_rows",
                "descriptor \"gqa_decode:head_dim=80,kv=int4_rows\": a matrix of packed words is of 32 channels, and "
                "head_dim "
                "is no multiple of that; accepted with int4_rows: head_dim=64, 96, 128, 160, 192 and 256; kv_gather "
                "reads other dimensions"},
        Refused{
            "gqa_decode:head_dim=112,family=sm90",
            "descriptor \"gqa_decode:head_dim=112,family=sm90\": family=sm90: it takes head_dim=64, 96, 128, 192 and "
            "256; family=sm80, or leave family out"},
        Refused{"gqa_decode:kv=int4_rows,groups=3",
                "descriptor \"gqa_decode:kv=int4_rows,groups=3\": 3 is not a value of groups; accepted: 1, 2, 4, 8"},
        Refused{"gqa_decode:heads_per_kv=99999999999999999999",
                "descriptor \"gqa_decode:heads_per_kv=99999999999999999999\": 99999999999999999999 is not a value of "
                "heads_per_kv; accepted: 1 to 64"},
        Refused{"gqa_decode:heads_per_kv=0",
                "descriptor \"gqa_decode:heads_per_kv=0\": 0 is not a value of heads_per_kv; accepted: 1 to 64"},
        Refused{"gqa_decode:heads_per_kv=8x",
                "descriptor \"gqa_decode:heads_per_kv=8x\": 8x is not a value of heads_per_kv; accepted: 1 to 64"},
        Refused{"gqa_decode:kv=int4_rows,cache=paged,family=sm90",
                "descriptor \"gqa_decode:kv=int4_rows,cache=paged,family=sm90\": family=sm90 copies rows in bulk: rows "
                "of a paged cache must be a multiple of 16 bytes, and these are 68; family=sm80, or leave family out"},
        Refused{"gqa_decode:kv=int4_rows,alignment=8,family=sm90",
                "descriptor \"gqa_decode:kv=int4_rows,alignment=8,family=sm90\": family=sm90 copies rows in bulk: rows "
                "of 68 bytes follow one another only with alignment=4; family=sm80, or leave family out"},
        Refused{
            "gqa_decode:kv=int4_rows,groups=2,family=sm90,alignment=16",
            "descriptor \"gqa_decode:kv=int4_rows,groups=2,alignment=16,family=sm90\": family=sm90 copies rows in "
            "bulk: rows of 72 bytes follow one another only with alignment=8 or 4; family=sm80, or leave family out"},
        Refused{"gqa_decode:kv=fp8_e4m3,alignment=8,family=sm90",
                "descriptor \"gqa_decode:kv=fp8_e4m3,alignment=8,family=sm90\": family=sm90 copies rows in bulk: every "
                "pointer and stride must be a multiple of 16 bytes; family=sm80, or leave family out"},
        Refused{"gqa_decode:family=sm75",
                "descriptor \"gqa_decode:family=sm75\": family=sm75 multiplies fp16 alone: the query is bf16; a cache "
                "without bf16 with query=fp16 and output=fp16, or leave family out"},
        Refused{
            "gqa_decode:kv=int4_rows,query=fp16,output=bf16,family=sm75",
            "descriptor \"gqa_decode:kv=int4_rows,query=fp16,output=bf16,family=sm75\": family=sm75 multiplies fp16 "
            "alone: the output is bf16; a cache without bf16 with query=fp16 and output=fp16, or leave family out"},
        Refused{"gqa_decode:query=fp16,family=sm75",
                "descriptor \"gqa_decode:query=fp16,family=sm75\": family=sm75 multiplies fp16 alone: the cache is "
                "bf16; a cache without bf16 with query=fp16 and output=fp16, or leave family out"},
        Refused{"gqa_decode:kv=fp8_e4m3,value=bf16,query=fp16,family=sm75",
                "descriptor \"gqa_decode:kv=fp8_e4m3,value=bf16,query=fp16,family=sm75\": family=sm75 multiplies fp16 "
                "alone: the values are bf16; a cache without bf16 with query=fp16 and output=fp16, or leave family "
                "out"},
        Refused{"gqa_decode:value=fp16,query=fp16,family=sm75",
                "descriptor \"gqa_decode:value=fp16,query=fp16,family=sm75\": family=sm75 multiplies fp16 alone: the "
                "keys are bf16; a cache without bf16 with query=fp16 and output=fp16, or leave family out"},
        Refused{"gqa_decode:kv=fp8_e4m3,value=int4_rows,family=sm90",
                "descriptor \"gqa_decode:kv=fp8_e4m3,value=int4_rows,family=sm90\": family=sm90: its keys and values "
                "have one format and one head_dim; family=sm80, or leave family out"},
        Refused{"gqa_decode:head_dim=192,value_dim=128,family=sm90",
                "descriptor \"gqa_decode:head_dim=192,value_dim=128,family=sm90\": family=sm90: its keys and values "
                "have one format and one head_dim; family=sm80, or leave family out"},
        Refused{"gqa_decode:value=int5_rows",
                "descriptor \"gqa_decode:value=int5_rows\": int5_rows is not a value of value; accepted: bf16, fp16, "
                "int4_rows, int8_split, fp8_e4m3, fp8_e5m2"},
        Refused{"gqa_decode:value_dim=100",
                "descriptor \"gqa_decode:value_dim=100\": 100 is not a value of value_dim; accepted: 64, 80, 96, 112, "
                "128, 160, 192, 256"},
        Refused{"gqa_decode:kv=int4_rows,value_groups=4",
                "descriptor \"gqa_decode:kv=int4_rows,value_groups=4\": the field value_groups applies only to values "
                "with their own format; leave value_groups out or ask for value=…"},
        Refused{"gqa_decode:kv=int8_split,value_scales=head",
                "descriptor \"gqa_decode:kv=int8_split,value_scales=head\": the field value_scales applies only to "
                "values with their own format; leave value_scales out or ask for value=…"},
        Refused{"gqa_decode:kv=int4_rows,value=fp8_e4m3,value_groups=4",
                "descriptor \"gqa_decode:kv=int4_rows,value=fp8_e4m3,value_groups=4\": the field value_groups applies "
                "to value_scales=group only; leave value_groups out or ask for value_scales=group"},
        Refused{"gqa_decode:kv=int8_split,value=int4_rows,value_scale_type=fp16",
                "descriptor \"gqa_decode:kv=int8_split,value=int4_rows,value_scale_type=fp16\": the field "
                "value_scale_type applies to value=int8_split, value=fp8_e4m3 or value=fp8_e5m2 only; leave "
                "value_scale_type out or ask for value=int8_split, value=fp8_e4m3 or value=fp8_e5m2"},
        Refused{"gqa_decode:groups=4,value=int4_rows",
                "descriptor \"gqa_decode:groups=4,value=int4_rows\": the field groups applies to kv=int4_rows or "
                "scales=group only; leave groups out or ask for kv=int4_rows or scales=group"},
        Refused{"gqa_decode:value=fp8_e4m3,value_scales=group",
                "descriptor \"gqa_decode:value=fp8_e4m3,value_scales=group\": value_scales=group with one group per "
                "row is value_scales=head; ask for value_groups=2, 4 or 8, or for value_scales=head"},
        Refused{"gqa_decode:head_dim=96,value=int4_rows,value_groups=4",
                "descriptor \"gqa_decode:head_dim=96,value=int4_rows,value_groups=4\": 96 channels in 4 groups are 24 "
                "per group, not a multiple of 16; at most 2 groups for this head_dim"},
        Refused{"gqa_decode:kv=int4_rows,groups=8,value_dim=64",
                "descriptor \"gqa_decode:kv=int4_rows,groups=8,value_dim=64\": 64 channels in 8 groups are 8 per "
                "group, not a multiple of 16; at most 4 groups for this value_dim"},
        Refused{"gqa_decode:value_dim=80,value=int4_rows",
                "descriptor \"gqa_decode:value_dim=80,value=int4_rows\": a matrix of packed words is of 32 channels, "
                "and value_dim is no multiple of that; accepted with int4_rows: value_dim=64, 96, 128, 160, 192 and "
                "256; kv_gather reads other dimensions"},
        Refused{"gqa_decode:query_tokens=17",
                "descriptor \"gqa_decode:query_tokens=17\": 17 is not a value of query_tokens; accepted: 1 to 16"},
        Refused{
            "gqa_decode:query_tokens=4,mask=full",
            "descriptor \"gqa_decode:query_tokens=4,mask=full\": full is not a value of mask; accepted: causal, tree"},
        Refused{
            "gqa_decode:mask=causal",
            "descriptor \"gqa_decode:mask=causal\": the field mask applies to several query tokens only; leave mask "
            "out or ask for query_tokens=2 to 16"},
        Refused{
            "gqa_decode:query_tokens=1,mask=tree",
            "descriptor \"gqa_decode:query_tokens=1,mask=tree\": the field mask applies to several query tokens only; "
            "leave mask out or ask for query_tokens=2 to 16"},
        Refused{"gqa_decode:groups=1",
                "descriptor \"gqa_decode:groups=1\": the field groups applies to kv=int4_rows or scales=group "
                "only; leave groups out or ask for kv=int4_rows or scales=group"},
        Refused{"gqa_decode:head_dim=64,kv=int4_rows,groups=8",
                "descriptor \"gqa_decode:head_dim=64,kv=int4_rows,groups=8\": 64 channels in 8 groups are 8 per group, "
                "not a "
                "multiple of 16; at most 4 groups for this head_dim"},
        Refused{"gqa_decode:heads_per_kv=65",
                "descriptor \"gqa_decode:heads_per_kv=65\": 65 is not a value of heads_per_kv; accepted: 1 to 64"},
        Refused{
            "gqa_decode:head_dim=96,kv=int4_rows,groups=4",
            "descriptor \"gqa_decode:head_dim=96,kv=int4_rows,groups=4\": 96 channels in 4 groups are 24 per group, "
            "not a multiple of 16; at most 2 groups for this head_dim"},
        Refused{"gqa_decode:head_dim=192,kv=int4_rows,groups=8",
                "descriptor \"gqa_decode:head_dim=192,kv=int4_rows,groups=8\": 192 channels in 8 groups are 24 per "
                "group, not a multiple of 16; at most 4 groups for this head_dim"},
        Refused{"gqa_decode:kv=bf16,kv=fp16",
                "descriptor \"gqa_decode:kv=bf16,kv=fp16\": the field kv is given twice; give "
                "each field once"},
        Refused{"gqa_decode:",
                "descriptor \"gqa_decode:\": \"\" is not a field=value pair; write "
                "name:field=value,field=value without spaces"},
        Refused{"gqa_decode:kv",
                "descriptor \"gqa_decode:kv\": \"kv\" is not a field=value pair; write "
                "name:field=value,field=value without spaces"},
        Refused{"gqa_decode:kv=bf16,",
                "descriptor \"gqa_decode:kv=bf16,\": \"\" is not a field=value pair; write "
                "name:field=value,field=value without spaces"},
        Refused{"stream_read:blocks_per_sm=3",
                "descriptor \"stream_read:blocks_per_sm=3\": 3 is not a value of blocks_per_sm; accepted: 2, 4, 8"}));

}  // namespace
}  // namespace cubit::ops
