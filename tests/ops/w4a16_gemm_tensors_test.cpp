// Tests of w4a16_gemm's named inputs: accepted inputs are converted to the right type, and refused inputs get one clear
// sentence whose advice would be accepted.
#include <gtest/gtest.h>

#include <cstring>

#include "tests/ops/w4a16_gemm_case.hpp"
#include "tests/support/refusals.hpp"

namespace cubit::ops {
namespace {

using namespace packed_gemm;

struct BadCase {
  const char* sentence;
  void (*change)(Case&);
};

class RefusedGemmTensors : public ::testing::TestWithParam<BadCase> {};

TEST_P(RefusedGemmTensors, NamesTheRule) {
  Case one({.group_size = kGroup});
  GetParam().change(one);
  tests::expect_refused_with([&] { one.problem(); }, GetParam().sentence);
}

INSTANTIATE_TEST_SUITE_P(
    Rules, RefusedGemmTensors,
    ::testing::Values(
        BadCase{"tensors without qzeros: w4a16_gemm:group_size=32 needs activations, qweight, scales, qzeros",
                [](Case& c) { c.tensors.pop_back(); }},
        BadCase{"tensor mask: w4a16_gemm:group_size=32 has no such input; accepted: activations, qweight",
                [](Case& c) { c.tensors[3].name = "mask"; }},
        BadCase{"tensor qweight of type U8: the descriptor", [](Case& c) { c.tensors[0].type = "U8"; }},
        BadCase{"tensor qweight [64, 3]: with n = 24 and k = 64 it looks like awq, not gptq of 4 bits; ask for "
                "format=awq",
                [](Case& c) {
                  c.tensors[0].shape = {64, 3};
                }},
        BadCase{"tensor weights: w4a16_gemm:group_size=32 has no such input; quantise them first, by w4_quantize",
                [](Case& c) { c.tensors[3].name = "weights"; }},
        BadCase{"tensor bias: w4a16_gemm:group_size=32 has no such input; ask for bias=true, or leave it out",
                [](Case& c) { c.tensors[3].name = "bias"; }},
        BadCase{"tensor qweight [64, 4]: w4a16_gemm:group_size=32 with m = 3, n = 24 and k = 64 wants [8, 24]",
                [](Case& c) {
                  Case::reshape(c.tensors[0], c.packed.qweight, {64, 4});
                }},
        BadCase{
            "tensor qweight [16, 24]: with n = 24 and k = 64 it looks like 8-bit weights packed along k, not gptq of 4 "
            "bits; ask for bits=8",
            [](Case& c) {
              Case::reshape(c.tensors[0], c.packed.qweight, {16, 24});
              Case::reshape(c.tensors[3], c.packed.qzeros, {2, 6});
            }},
        BadCase{"tensor scales [1, 24]: 1 group of 32 is for k = 32, but the words and activations are for k = 64; "
                "give all "
                "tensors for one k, and the group_size that the checkpoint's config states",
                [](Case& c) { c.tensors[1].shape[0] = 1; }},
        BadCase{"tensor scales [2, 24]: 2 groups of 32 are for k = 64, but the activations are for k = 128; give all",
                [](Case& c) {
                  c.tensors[2].shape = {1, 128};
                }},
        BadCase{"tensor scales [5, 8]: 5 groups of 32 are for k = 160, but the activations are for k = 64; give all",
                [](Case& c) {
                  c.tensors[1].shape = {5, 8};
                }},
        BadCase{
            "tensor scales [0, 24]: 0 groups of 32 are for k = 0, but the words and activations are for k = 64; give",
            [](Case& c) { c.tensors[1].shape[0] = 0; }},
        BadCase{"n = 20: it must be a multiple of 8", [](Case& c) { c.tensors[1].shape[1] = 20; }},
        BadCase{"tensor activations [64]: it must have the dimensions [m, k]",
                [](Case& c) { c.tensors[2].shape = {64}; }},
        BadCase{
            "tensor activations of type BF16: the descriptor w4a16_gemm:group_size=32 wants F16; ask for element=bf16",
            [](Case& c) { c.tensors[2].type = "BF16"; }},
        BadCase{"number speed: w4a16_gemm has no such launch argument; accepted: decomposition, splits",
                [](Case& c) { c.numbers["speed"] = 1; }},
        BadCase{"splits = 0.5: it is not a number that is accepted; accepted: whole numbers from 0 to 256",
                [](Case& c) { c.numbers["splits"] = 0.5; }},
        BadCase{"splits = 10000000000: it is not a number that is accepted; accepted: whole numbers from 0 to 256",
                [](Case& c) { c.numbers["splits"] = 1e10; }},
        BadCase{"decomposition = 5: it is not a number that is accepted; accepted: whole numbers from 0 to 4",
                [](Case& c) { c.numbers["decomposition"] = 5; }}));

std::string refusal_of(const Case& one) {
  return tests::refusal_of([&] { one.problem(); });
}

TEST(GemmTensors, TakesAnActivationOrderOnlyWhereItIsAskedFor) {
  Case plain({.group_size = kGroup});
  Case ordered({.group_size = kGroup, .activation_order = true});
  EXPECT_EQ(refusal_of(ordered).substr(0, 61), "tensors without g_idx: w4a16_gemm:group_size=32,activation_or");
  std::vector<std::int32_t> groups(kK);
  for (int k = 0; k < kK; ++k) groups[k] = k / kGroup;
  for (Case* one : {&plain, &ordered}) one->tensors.push_back({"g_idx", "I32", {kK}, {}, groups.data()});
  EXPECT_EQ(plain.problem()->inputs().size(), 4u);
  EXPECT_EQ(ordered.problem()->inputs().size(), 5u);
  std::swap(groups[3], groups[40]);
  EXPECT_EQ(refusal_of(ordered), "accepted");
  EXPECT_EQ(refusal_of(plain),
            "g_idx[3] = 1: w4a16_gemm:group_size=32 takes no activation order; ask for activation_order=true, or give "
            "g_idx[k] = k / group_size or none");
  groups[5] = 2;  // here activation_order=true would not help
  for (const Case* one : {&plain, &ordered})
    EXPECT_EQ(refusal_of(*one), "g_idx[5] = 2: there are 2 groups; accepted: 0 to 1");
  ordered.tensors.back().shape = {kK / 2};
  EXPECT_EQ(refusal_of(ordered), "tensor g_idx [32] of type I32: it must be I32 [64]");
}

/// The format has no zeros, but some packers store zeros nevertheless.
TEST(GemmTensors, ZerosOfSymmetricWeightsAreAnotherFormats) {
  Case one({.format = W4Format::symmetric, .group_size = kGroup});
  const std::vector<std::uint32_t> zeros(kK / kGroup * kN / 8, 0x77777777);
  one.tensors.push_back({"qzeros", "I32", {kK / kGroup, kN / 8}, {}, const_cast<std::uint32_t*>(zeros.data())});
  EXPECT_EQ(
      refusal_of(one),
      "tensor qzeros: w4a16_gemm:format=symmetric,group_size=32 has no such input; ask for format=gptq, gptq_v2 or "
      "awq, as its packer did, or leave it out where every zero is the middle");
}

/// bf16 scales are accepted if fp16 represents them exactly, so that no weight changes silently.
TEST(GemmTensors, ScalesOfBf16AreTakenWhereTheyStayWhatTheyAre) {
  Case one({.group_size = kGroup});
  for (auto& row : one.plain.scale)
    for (std::uint16_t& scale : row)
      scale = from_float(Element::fp16, static_cast<float>(to_double(Element::bf16, from_float(Element::bf16, 0.01f))));
  const auto expected = one.problem();
  std::vector<std::uint16_t> scales(kK / kGroup * kN, from_float(Element::bf16, 0.01f));
  one.tensors[1].type = "BF16";
  one.tensors[1].data = scales.data();
  const auto problem = one.problem();
  EXPECT_EQ(problem->inputs()[2].type, "F16");
  EXPECT_EQ(std::memcmp(problem->inputs()[2].data, expected->inputs()[2].data, problem->inputs()[2].bytes()), 0);
  for (const float kept : {0x1p-17f, 0x1.fep-17f, 65280.f, 0.f, -3.f}) {
    scales[kN + 5] = from_float(Element::bf16, kept);
    EXPECT_EQ(refusal_of(one), "accepted") << kept;
  }
  for (const float lost : {0x1.02p-18f, 65536.f, 1e30f, 1e-30f}) {
    scales[kN + 5] = from_float(Element::bf16, lost);
    EXPECT_EQ(refusal_of(one).substr(0, 15), "scales[1, 5] = ") << lost;
    EXPECT_NE(refusal_of(one).find("of type BF16: fp16, which the kernel reads, has no such number; accepted: F16, or"),
              std::string::npos);
  }
}

/// w4_quantize writes the scale NaN for a group with an infinity or NaN, and the product shows it.
TEST(GemmTensors, ScalesMayBeNan) {
  Case one({.group_size = kGroup});
  one.plain.scale[1][5] = 0x7c00;
  EXPECT_EQ(refusal_of(one), "accepted");
  std::vector<std::uint16_t> scales(kK / kGroup * kN, 0x7fc0);  // NaN in bf16
  one.tensors[1].type = "BF16";
  one.tensors[1].data = scales.data();
  EXPECT_EQ(refusal_of(one), "accepted");
  std::vector<float> floats(kK / kGroup * kN, 1);
  one.tensors[1].type = "F32";
  one.tensors[1].data = floats.data();
  EXPECT_EQ(refusal_of(one),
            "tensor scales of type F32: the descriptor w4a16_gemm:group_size=32 wants F16; accepted: F16, or BF16 of "
            "numbers that F16 has");
}

TEST(GemmTensors, ABiasOfAnotherTypeIsRounded) {
  Case one({.group_size = kGroup, .element = Element::bf16, .bias = true});
  std::vector<float> bias(kN, 0.3f);
  one.tensors.push_back({"bias", "F32", {kN}, {}, bias.data()});
  const auto problem = one.problem();
  const check::Tensor& taken = problem->inputs().back();
  EXPECT_EQ(taken.name + " " + taken.type, "bias BF16");
  EXPECT_EQ(static_cast<const std::uint16_t*>(taken.data)[3], from_float(Element::bf16, 0.3f));
  Case half({.group_size = kGroup, .bias = true});
  std::vector<std::uint16_t> large(kN, from_float(Element::bf16, 1e5f));
  half.tensors.push_back({"bias", "BF16", {kN}, {}, large.data()});
  EXPECT_EQ(
      refusal_of(half),
      "bias[0] = 99840 of type BF16: it is too large for F16, to which it would be rounded; ask for element=bf16");
  half.tensors.back().type = "I16";
  EXPECT_EQ(refusal_of(half), "tensor bias [24] of type I16: it must be F16, BF16 or F32 [24]");
}

/// The advice of an error would be accepted.
TEST(GemmTensors, AdvisesWhatTheDescriptorCanBe) {
  Case earlier({.group_size = kGroup, .family = "sm75"});
  earlier.tensors[2].type = "BF16";
  EXPECT_NE(refusal_of(earlier).find("; ask for element=bf16, and leave tile_n and family out"), std::string::npos);
  std::vector<float> bias(kN, 3.4e38f);
  for (const Element element : {Element::fp16, Element::bf16}) {
    Case one({.group_size = kGroup, .element = element, .bias = true});
    one.tensors.push_back({"bias", "F32", {kN}, {}, bias.data()});
    EXPECT_NE(refusal_of(one).find("rounded; give a smaller one"), std::string::npos) << refusal_of(one);
    one.tensors.back().shape = {kN - 1};
    EXPECT_EQ(refusal_of(one), "tensor bias [23] of type F32: it must be F16, BF16 or F32 [24]");
  }
  Case bytes({.format = W4Format::symmetric, .bits = 8, .group_size = kGroup});
  bytes.tensors[1].name = "qzeros";
  EXPECT_NE(refusal_of(bytes).find("; ask for format=gptq or gptq_v2, as"), std::string::npos);
  Case boxes({.group_size = kGroup, .family = "sm90"});
  std::vector<std::int32_t> groups(kK, 1);
  boxes.tensors.push_back({"g_idx", "I32", {kK}, {}, groups.data()});
  EXPECT_NE(refusal_of(boxes).find("; ask for activation_order=true, and leave tile_n and family out, or give"),
            std::string::npos);
  Case few({.group_size = 64});
  few.tensors[1].shape = {1, kN};
  few.tensors[2].shape = {1, 96};
  EXPECT_EQ(refusal_of(few),
            "tensor scales [1, 24]: 1 group of 64 is for k = 64, but the activations are for k = 96; give all tensors "
            "for one k, and the group_size that the checkpoint's config states");
}

/// A case with dense weights of 24 columns.
struct DenseCase {
  explicit DenseCase(const std::string& fields) : text("w4a16_gemm:format=dense,tile_m=64" + fields) {}
  std::string refusal() const {
    return tests::refusal_of([&] { problem(); });
  }
  std::unique_ptr<check::Problem> problem() const { return check::find_problems(text).problem(text, tensors, {}); }

  std::string text;
  std::vector<std::uint16_t> numbers = std::vector<std::uint16_t>(kN * kK, 0x3c00);
  std::vector<check::Tensor> tensors = {{"activations", "F16", {kM, kK}, {}, numbers.data()},
                                        {"weight", "F16", {kN, kK}, {}, numbers.data()}};
};

TEST(GemmTensors, DenseWeightsHaveTheTypeOfTheActivationsAndARowPerColumn) {
  DenseCase one("");
  EXPECT_EQ(one.problem()->outputs()[0].shape, (std::vector<std::int64_t>{kM, kN}));
  one.tensors[1].name = "weights";  // as w4_quantize calls them
  EXPECT_EQ(one.problem()->inputs()[1].name, "weight");
  one.tensors[1].name = "mask";
  EXPECT_EQ(one.refusal(),
            "tensor mask: w4a16_gemm:format=dense,tile_m=64 has no such input; accepted: activations, weight");
  one.tensors[1].name = "qweight";
  EXPECT_EQ(one.refusal(),
            "tensor qweight: w4a16_gemm:format=dense,tile_m=64 has no such input; ask for the format of these packed "
            "weights, or leave it out");
  one.tensors[1].name = "weight";
  one.tensors[1].type = "BF16";
  EXPECT_EQ(one.refusal(),
            "tensor weight of type BF16: the descriptor w4a16_gemm:format=dense,tile_m=64 wants F16; ask for "
            "element=bf16");
  one.tensors[1].type = "F8_E4M3";
  EXPECT_EQ(
      one.refusal(),
      "tensor weight of type F8_E4M3: the descriptor w4a16_gemm:format=dense,tile_m=64 wants F16; give it of that "
      "type");
  one.tensors[1].type = "F16";
  one.tensors[1].shape = {kN, kK - 8};
  EXPECT_EQ(one.refusal(),
            "tensor weight [24, 56]: w4a16_gemm:format=dense,tile_m=64 with m = 3, n = 24 and k = 64 wants [24, 64]");
  one.tensors[1].shape = {kN * kK};
  EXPECT_EQ(one.refusal(), "tensor weight [1536]: it must have the dimensions [n, k]");
  one.tensors[1].shape = {kN - 4, kK};
  EXPECT_EQ(one.refusal(), "n = 20: it must be a multiple of 8 from 8 to 16776960");
  one.tensors.pop_back();
  EXPECT_EQ(one.refusal(), "tensors without weight: w4a16_gemm:format=dense,tile_m=64 needs activations, weight");
}

TEST(GemmTensors, ABiasOfDenseWeightsIsRounded) {
  DenseCase one(",bias=true");
  std::vector<float> bias(kN, 0.3f);
  one.tensors.push_back({"bias", "F32", {kN}, {}, bias.data()});
  const auto problem = one.problem();
  EXPECT_EQ(static_cast<const std::uint16_t*>(problem->inputs()[2].data)[3], from_float(Element::fp16, 0.3f));
  one.tensors.back().shape = {kN - 1};
  EXPECT_EQ(one.refusal(), "tensor bias [23] of type F32: it must be F16, BF16 or F32 [24]");
}

/// Such a group index has no effect, but it must be one: a group for every k.
TEST(GemmTensors, AGroupIndexWithoutActivationOrderHasAnEntryForEachK) {
  Case one({.group_size = kGroup});
  std::vector<std::int32_t> groups(2 * kK);
  for (int k = 0; k < 2 * kK; ++k) groups[k] = k / kGroup;
  one.tensors.push_back({"g_idx", "I32", {kK}, {}, groups.data()});
  EXPECT_EQ(refusal_of(one), "accepted");
  const auto refused = [&](std::string_view type, std::vector<std::int64_t> shape, const std::string& given) {
    one.tensors.back().type = type;
    one.tensors.back().shape = std::move(shape);
    EXPECT_EQ(refusal_of(one), "tensor g_idx " + given + ": it must be I32 [64]");
  };
  refused("I32", {kK / 2}, "[32] of type I32");
  refused("I32", {2 * kK}, "[128] of type I32");
  refused("I32", {0}, "[0] of type I32");
  refused("I32", {}, "[] of type I32");
  refused("I32", {1, kK}, "[1, 64] of type I32");
  refused("I64", {kK}, "[64] of type I64");
}

/// Tensors of a file may begin at any byte.
TEST(GemmTensors, AGroupIndexMayLieAtAnyAddress) {
  Case one({.group_size = kGroup});
  std::vector<char> bytes(4 * kK + 1);
  for (int k = 0; k < kK; ++k) {
    const std::int32_t group = k / kGroup;
    std::memcpy(bytes.data() + 1 + 4 * k, &group, 4);
  }
  one.tensors.push_back({"g_idx", "I32", {kK}, {}, bytes.data() + 1});
  EXPECT_EQ(refusal_of(one), "accepted");
  bytes[1 + 4 * 40] = 0;
  EXPECT_EQ(refusal_of(one).substr(0, 13), "g_idx[40] = 0");
}

}  // namespace
}  // namespace cubit::ops
