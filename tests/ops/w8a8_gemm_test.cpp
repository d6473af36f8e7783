// w8a8_gemm without running kernels: descriptor texts, refusals, launches, proofs of bank conflicts, and compilation
// without spills. tests/cover checks what kernels compute.
#include <cubit/w8a8_gemm.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include "check/problem.hpp"
#include "ops/w8a8_gemm/w8a8_gemm.hpp"
#include "templates/byte_gemm/arguments.h"
#include "templates/byte_gemm/lanes.h"
#include "tests/support/compiled.hpp"
#include "tests/support/descriptor_texts.hpp"
#include "tests/support/launches.hpp"
#include "tests/support/refusals.hpp"

namespace cubit::ops {
namespace {

using tests::address;
using tests::expect_refused;

TEST(W8a8Descriptor, EveryValueHasOneTextThatParsesBackToIt) {
  std::vector<W8a8Gemm> all;
  for (const W8Output output : {W8Output::fp16, W8Output::bf16, W8Output::int8, W8Output::fp8_e4m3})
    for (const W8Element element : {W8Element::int8, W8Element::fp8_e4m3})
      for (const TokenScale token : {TokenScale::token, TokenScale::tensor})
        for (const ChannelScale channel : {ChannelScale::channel, ChannelScale::tensor})
          all.push_back({.element = element, .output = output, .activation_scale = token, .weight_scale = channel});
  all.push_back({.output = W8Output::int32, .tile_m = 64, .atomic_splits = true});
  all.push_back({.output = W8Output::int8, .residual = true, .addend = Element::bf16, .family = "sm80"});
  all.push_back({.function = GemmFunction::gelu_tanh, .bias = true});
  all.push_back({.output = W8Output::bf16, .second_output = SecondOutput::int8});
  all.push_back({.second_output = SecondOutput::fp8_e4m3, .tile_m = 128});
  all.push_back({.activation_scale = TokenScale::tensor, .zero_points = true, .tile_m = 16});
  all.push_back({.element = W8Element::fp8_e4m3, .accumulate = Fp8Accumulation::promoted, .tile_m = 128});
  all.push_back({.tile_m = 256, .family = "sm90_persistent"});
  tests::expect_one_text_each(all, w8a8_gemm::parse);
  EXPECT_EQ(W8a8Gemm{}.text(), "w8a8_gemm");
}

TEST(W8a8Descriptor, RefusesByName) {
  const auto refused = [](const std::string& text, const std::string& rule) {
    expect_refused([&] { w8a8_gemm::parse(text); }, "descriptor \"" + text + "\": " + rule);
  };
  refused("w8a8_gemm:element=fp8_e4m3,output=int32",
          "output=int32 needs the integer sums of element=int8; ask for output=fp16 or output=bf16");
  refused(
      "w8a8_gemm:output=int32,bias=true",
      "the field bias does not apply to output=int32, which is the sums; leave bias out, or ask for another output");
  refused("w8a8_gemm:output=int32,zero_points=true",
          "the field zero_points does not apply to output=int32, which is the sums; leave zero_points out, or ask for "
          "another output");
  refused(
      "w8a8_gemm:element=fp8_e4m3,zero_points=true",
      "the field zero_points does not apply to element=fp8_e4m3, whose activations have none; leave zero_points out, "
      "or ask for element=int8");
  refused(
      "w8a8_gemm:output=int8,second_output=int8",
      "the field second_output applies to an output of 16 bits, which it quantises; leave second_output out, or ask "
      "for output=fp16 or output=bf16");
  refused("w8a8_gemm:addend=bf16,bias=true",
          "the field addend applies to bias and residual beside an output of 8 bits; leave addend out, or ask for "
          "bias=true or residual=true and output=int8 or output=fp8_e4m3");
  refused("w8a8_gemm:tile_m=24", "24 is not a value of tile_m; accepted: auto, 8, 16, 32, 64, 128, 192, 256");
  refused("w8a8_gemm:accumulate=promoted",
          "the field accumulate does not apply to element=int8, whose sums are exact; leave accumulate out, or ask for "
          "element=fp8_e4m3");
  refused("w8a8_gemm:accumulate=fast",
          "the field accumulate does not apply to element=int8, whose sums are exact; leave accumulate out, or ask for "
          "element=fp8_e4m3");
  refused("w8a8_gemm:tile_m=8,family=sm90_persistent",
          "family=sm90_persistent: its tiles have 16 to 256 rows; leave tile_m or family out");
  refused("w8a8_gemm:tile_m=128,family=sm80",
          "family=sm80: its tiles have at most 64 rows, not 128; ask for tile_m=8, 16, 32 or 64, which compute any "
          "number of rows, or leave family out");
  refused(
      "w8a8_gemm:element=fp8_e4m3,tile_m=8,family=sm75",
      "family=sm75: it multiplies int8 alone, as the tensor cores of sm_75 do; ask for element=int8, or leave family "
      "out");
  refused("w8a8_gemm:tile_m=128,family=sm75",
          "family=sm75: its tiles have at most 64 rows, not 128; ask for tile_m=8, 16, 32 or 64, which compute any "
          "number of rows, or leave family out");
  refused("w8a8_gemm:tile_m=64,atomic_splits=true,family=sm90_persistent",
          "family=sm90_persistent: the two blocks of a cluster add up their sums themselves, without atomics; leave "
          "atomic_splits out");
  refused("w8a8_gemm:atomic_splits=true,family=sm90_persistent",
          "family=sm90_persistent: the two blocks of a cluster add up their sums themselves, without atomics; leave "
          "atomic_splits out");
  refused("w8a8_gemm:element=fp8_e4m3,accumulate=promoted,tile_m=256",
          "tile_m=256: no kernel family serves it (sm80: its tiles have at most 64 rows, not 256; sm90_persistent: "
          "accumulate=promoted needs registers for the sums of a stage, which tiles of at most 128 rows have; sm75: it "
          "multiplies int8 alone, as the tensor cores of sm_75 do); ask for tile_m=8, 16, 32 or 64, which compute any "
          "number of rows");
}

std::string refusal_on(const char* text, const char* architecture) {
  try {
    const Operator& op = find_operator(text);
    op.members(text, codegen::find_architecture(architecture));
    op.specialise(text, codegen::find_architecture(architecture));
    return "";
  } catch (const Failure& failure) {
    return failure.rule();
  }
}

TEST(W8a8Descriptor, RefusesArchitecturesWithoutTheInstruction) {
  EXPECT_EQ(refusal_on("w8a8_gemm:tile_m=16", "sm_75"), "");
  EXPECT_NE(refusal_on("w8a8_gemm:tile_m=16,family=sm80", "sm_75").find("cp.async"), std::string::npos);
  for (const char* const architecture : {"sm_75", "sm_80", "sm_86"})
    EXPECT_NE(refusal_on("w8a8_gemm:element=fp8_e4m3,tile_m=16", architecture)
                  .find("element=fp8_e4m3 needs mma.sync of e4m3, which sm_89 brought"),
              std::string::npos);
  for (const char* const architecture : {"sm_89", "sm_90a", "sm_100a", "sm_120"})
    EXPECT_EQ(refusal_on("w8a8_gemm:element=fp8_e4m3,tile_m=16", architecture), "") << architecture;
}

std::vector<std::string> members_on(const char* text, const char* architecture) {
  return find_operator(text).members(text, codegen::find_architecture(architecture));
}

TEST(W8a8Descriptor, NamesASetOfAllTiles) {
  EXPECT_EQ(members_on("w8a8_gemm", "sm_80"), (std::vector<std::string>{"w8a8_gemm:tile_m=8", "w8a8_gemm:tile_m=16",
                                                                        "w8a8_gemm:tile_m=32", "w8a8_gemm:tile_m=64"}));
  const auto many = members_on("w8a8_gemm", "sm_90a");
  ASSERT_EQ(many.size(), 7u);
  EXPECT_EQ(many.back(), "w8a8_gemm:tile_m=256");
  const auto promoted = members_on("w8a8_gemm:element=fp8_e4m3,accumulate=promoted", "sm_90a");
  EXPECT_EQ(promoted.back(), "w8a8_gemm:element=fp8_e4m3,accumulate=promoted,tile_m=128");
  EXPECT_EQ(members_on("w8a8_gemm", "sm_75"), members_on("w8a8_gemm", "sm_80"));
  EXPECT_EQ(members_on("w8a8_gemm:atomic_splits=true", "sm_90a").size(), 4u);
}

TEST(W8a8Descriptor, NamesTheFamilyOfATile) {
  const auto family = [](const char* text, const char* architecture) {
    return find_operator(text).specialise(text, codegen::find_architecture(architecture))->report().family;
  };
  EXPECT_EQ(family("w8a8_gemm:tile_m=8", "sm_90a"), "sm80_w8a8_gemm");
  EXPECT_EQ(family("w8a8_gemm:tile_m=16", "sm_90a"), "sm90_persistent_w8a8_gemm");
  EXPECT_EQ(family("w8a8_gemm:tile_m=16,family=sm80", "sm_90a"), "sm80_w8a8_gemm");
  EXPECT_EQ(family("w8a8_gemm:tile_m=16,atomic_splits=true", "sm_90a"), "sm80_w8a8_gemm");
  EXPECT_EQ(family("w8a8_gemm:tile_m=16", "sm_100a"), "sm80_w8a8_gemm");
  EXPECT_EQ(family("w8a8_gemm:tile_m=16", "sm_75"), "sm75_w8a8_gemm");
  EXPECT_EQ(family("w8a8_gemm:tile_m=16,family=sm75", "sm_80"), "sm75_w8a8_gemm");
  EXPECT_NE(refusal_on("w8a8_gemm:tile_m=128", "sm_100a").find("it needs wgmma"), std::string::npos);
}

/// Where the compiler expands mma.sync of e4m3, its 16-bit products lose nothing that promotion could save.
TEST(W8a8Plan, PromotesWhereTensorCoresHaveE4m3) {
  const auto promotes = [](const char* architecture) {
    const char* const text = "w8a8_gemm:element=fp8_e4m3,accumulate=promoted,tile_m=64,family=sm80";
    const auto made = find_operator(text).specialise(text, codegen::find_architecture(architecture));
    const auto& headers = made->source().headers;
    const auto plan =
        std::find_if(headers.begin(), headers.end(), [](const auto& one) { return one.name == "plan.cuh"; });
    return plan->text.find("PromotedSums") != std::string::npos;
  };
  EXPECT_TRUE(promotes("sm_89"));
  EXPECT_TRUE(promotes("sm_120"));
  EXPECT_FALSE(promotes("sm_90a"));
  EXPECT_FALSE(promotes("sm_100a"));
}

/// Rows that a launch of the set takes on an H200.
std::string chosen_on_h200(int m, int n, int k) {
  const Operator& op = find_operator("w8a8_gemm");
  cubit_w8a8_gemm_arguments arguments{};
  arguments.size = sizeof arguments;
  arguments.m = m;
  arguments.n = n;
  arguments.activation_stride = arguments.k = k;
  const auto choice = op.choice("w8a8_gemm", *tests::h200().architecture);
  return members_on("w8a8_gemm", "sm_90a")[choice->choose(&arguments, tests::h200())];
}

TEST(W8a8Descriptor, LaunchesTakeTheTileThatTheModelFindsFastest) {
  EXPECT_EQ(chosen_on_h200(16, 8192, 8192), "w8a8_gemm:tile_m=16");
  EXPECT_EQ(chosen_on_h200(64, 8192, 8192), "w8a8_gemm:tile_m=64");
  EXPECT_EQ(chosen_on_h200(2048, 8192, 8192), "w8a8_gemm:tile_m=256");
  EXPECT_EQ(chosen_on_h200(8192, 8192, 8192), "w8a8_gemm:tile_m=256");
}

/// Row r of ldmatrix's matrix i goes to lanes 4 r …, which store columns 4 r + i of the strip.
TEST(W8a8Lanes, GiveALaneFourNeighbouringColumns) {
  for (int row = 0; row < 256; ++row) {
    const int column = byte_lanes::column_of_row(row);
    EXPECT_EQ(column / 32, row / 32);
    EXPECT_EQ(column % 32 / 4, row % 8);
    EXPECT_EQ(column % 4, row / 8 % 4);
  }
}

TEST(W8a8Plan, PersistentKernelsHaveNoBankConflicts) {
  for (const char* const output : {"fp16", "int8", "int32"}) {
    for (const char* const function : {"none", "silu_gate"}) {
      const std::string text = fmt::format("w8a8_gemm:output={},tile_m=128{}", output,
                                           function == std::string("none") ? "" : std::string(",function=") + function);
      if (output == std::string("int32") && function != std::string("none")) continue;
      const auto made = find_operator(text).specialise(text, codegen::find_architecture("sm_90a"));
      EXPECT_EQ(made->report().proofs.size(), 3u);
      for (const auto& proof : made->report().proofs) EXPECT_EQ(proof.degree, 1) << proof.access << " of " << text;
    }
  }
}

TEST(W8a8Plan, HasNoBankConflicts) {
  for (const char* const architecture : {"sm_75", "sm_86"}) {
    for (const char* const tile : {"8", "16", "32", "64"}) {
      const auto made =
          find_operator("w8a8_gemm")
              .specialise(std::string("w8a8_gemm:tile_m=") + tile, codegen::find_architecture(architecture));
      EXPECT_EQ(made->report().proofs.size(), 4u);
      for (const auto& proof : made->report().proofs)
        EXPECT_EQ(proof.degree, 1) << proof.access << " of tile_m=" << tile << " on " << architecture;
    }
  }
}

/// On sm_75 a product of 16 columns and 32 values along k is four instructions, whose fragments the report names.
TEST(W8a8Plan, NamesTheFragmentsOfTheArchitecture) {
  const auto first_fragment = [](const char* architecture) {
    return find_operator("w8a8_gemm")
        .specialise("w8a8_gemm:tile_m=16,family=sm75", codegen::find_architecture(architecture))
        ->report()
        .fragments.at(0);
  };
  EXPECT_EQ(first_fragment("sm_75"), "mma.m8n8k16 A, 8-bit");
  EXPECT_EQ(first_fragment("sm_80"), "mma.m16n8k32 A, 8-bit");
}

Launch encode_on_h200(const W8a8Gemm& descriptor, const cubit_w8a8_gemm_arguments& arguments) {
  const auto made = find_operator("w8a8_gemm").specialise(descriptor.text(), *tests::h200().architecture);
  return made->encode(&arguments, nullptr, 0, tests::h200());
}

cubit_w8a8_gemm_arguments some_arguments() {
  cubit_w8a8_gemm_arguments arguments{};
  arguments.size = sizeof arguments;
  arguments.activations = address(0x1000);
  arguments.weights = address(0x2000);
  arguments.activation_scales = address<float>(0x3000);
  arguments.weight_scales = address<float>(0x4000);
  arguments.output = address(0x5000);
  arguments.activation_stride = arguments.k = 1024;
  arguments.output_stride = arguments.n = 512;
  arguments.m = 3;
  arguments.decomposition = CUBIT_W8A8_DATA_PARALLEL;
  return arguments;
}

TEST(W8a8Launch, PassesScalesAndStridesInBytes) {
  const auto arguments = some_arguments();
  const Launch launch = encode_on_h200({.tile_m = 8}, arguments);
  const auto parameters = tests::parameters_of<ByteGemmArguments>(launch);
  EXPECT_EQ(launch.parameter_bytes, sizeof parameters);
  EXPECT_EQ(parameters.activation_scales, arguments.activation_scales);
  EXPECT_EQ(parameters.scales, arguments.weight_scales);
  EXPECT_EQ(parameters.output_scale, nullptr);
  EXPECT_EQ(parameters.activation_stride, 1024);
  EXPECT_EQ(parameters.output_stride, 2 * 512);
}

PersistentByteArguments persistent_parameters(const char* text, const cubit_w8a8_gemm_arguments& arguments) {
  return tests::parameters_of<PersistentByteArguments>(encode_on_h200(w8a8_gemm::parse(text), arguments));
}

TEST(W8a8Launch, PassesTheSecondOutput) {
  auto arguments = some_arguments();
  arguments.second_scale = address<float>(0x6000);
  arguments.second_output = address(0x7000);
  arguments.second_stride = 520;
  const W8a8Gemm narrow{.second_output = SecondOutput::int8, .tile_m = 8};
  const W8a8Gemm wide{.second_output = SecondOutput::int8, .tile_m = 128};
  const auto expect_passed = [&](const ByteTensors& passed) {
    EXPECT_EQ(passed.second_scale, arguments.second_scale);
    EXPECT_EQ(passed.second_output, arguments.second_output);
    EXPECT_EQ(passed.second_stride, 520);
  };
  expect_passed(tests::parameters_of<ByteGemmArguments>(encode_on_h200(narrow, arguments)));
  expect_passed(tests::parameters_of<PersistentByteArguments>(encode_on_h200(wide, arguments)));
}

TEST(W8a8Launch, PassesZeroPointsAndSums) {
  auto arguments = some_arguments();
  arguments.activation_zeros = address<std::int32_t>(0x6000);
  arguments.weight_sums = address<std::int32_t>(0x7000);
  const auto narrow =
      tests::parameters_of<ByteGemmArguments>(encode_on_h200({.zero_points = true, .tile_m = 8}, arguments));
  EXPECT_EQ(narrow.activation_zeros, arguments.activation_zeros);
  EXPECT_EQ(narrow.weight_sums, arguments.weight_sums);
  const auto wide =
      tests::parameters_of<PersistentByteArguments>(encode_on_h200({.zero_points = true, .tile_m = 128}, arguments));
  EXPECT_EQ(wide.activation_zeros, arguments.activation_zeros);
  EXPECT_EQ(wide.weight_sums, arguments.weight_sums);
}

TEST(W8a8Launch, PassesScalesAndMapsToThePersistentKernel) {
  const auto arguments = some_arguments();
  const Launch launch = encode_on_h200({.tile_m = 128}, arguments);
  const auto parameters = tests::parameters_of<PersistentByteArguments>(launch);
  EXPECT_EQ(parameters.activation_scales, arguments.activation_scales);
  EXPECT_EQ(parameters.scales, arguments.weight_scales);
  EXPECT_EQ(parameters.slabs, 1024 / 128);
  EXPECT_EQ(parameters.unmapped_output, nullptr);
  ASSERT_EQ(launch.maps.all().size(), 3u);
  const runtime::TensorMap& weights = launch.maps.all()[0].map;
  EXPECT_EQ(weights.element_bytes, 1);
  EXPECT_EQ(weights.rank, 2);
  EXPECT_EQ(weights.strides[0], 1024u);
  EXPECT_EQ(weights.box[0], 128u);
  EXPECT_EQ(weights.box[1], 128u);
  const Launch gated = encode_on_h200({.tile_m = 128, .function = GemmFunction::silu_gate}, arguments);
  EXPECT_EQ(gated.maps.all()[0].map.rank, 4);
  EXPECT_EQ(gated.maps.all()[0].map.sizes[3], 512u / 16);
}

TEST(W8a8Launch, PassesThePromiseOfConstantWeights) {
  auto arguments = some_arguments();
  EXPECT_EQ(persistent_parameters("w8a8_gemm:tile_m=128", arguments).constant_weights, 0);
  arguments.constant_weights = 1;
  EXPECT_EQ(persistent_parameters("w8a8_gemm:tile_m=128", arguments).constant_weights, 1);
}

/// A tensor map's rows begin and end at multiples of 16 bytes, and rows of an 8-bit output at multiples of 8.
TEST(W8a8Launch, PassesOutputsThatNoTensorMapHas) {
  auto arguments = some_arguments();
  arguments.output_scale = address<float>(0x6000);
  arguments.n = 504;
  arguments.output_stride = 504;
  const auto unmapped = persistent_parameters("w8a8_gemm:output=int8,tile_m=128", arguments);
  EXPECT_EQ(unmapped.unmapped_output, arguments.output);
  EXPECT_EQ(unmapped.output_stride, 504);
  EXPECT_EQ(unmapped.output_scale, arguments.output_scale);
  arguments.output_stride = 512;
  EXPECT_EQ(persistent_parameters("w8a8_gemm:output=int8,tile_m=128", arguments).unmapped_output, arguments.output);
  arguments.n = 512;
  EXPECT_EQ(persistent_parameters("w8a8_gemm:output=int8,tile_m=128", arguments).unmapped_output, nullptr);
}

TEST(W8a8Launch, RefusesByName) {
  using Given = cubit_w8a8_gemm_arguments;
  const auto refused = [](void (*change)(Given&), const char* text, const std::string& sentence) {
    auto arguments = some_arguments();
    change(arguments);
    expect_refused([&] { encode_on_h200(w8a8_gemm::parse(text), arguments); }, sentence);
  };
  refused([](Given& a) { a.k = 1000; }, "w8a8_gemm:tile_m=8", "k = 1000: it must be a multiple of 16");
  refused([](Given& a) { a.k = 131072; }, "w8a8_gemm:tile_m=8", "k = 131072: it must be from 1 to 131056");
  refused([](Given& a) { a.weight_scales = nullptr; }, "w8a8_gemm:tile_m=8",
          "weight_scales = NULL: the tensor is needed");
  refused([](Given& a) { a.activation_zeros = address<std::int32_t>(0x6000); }, "w8a8_gemm:tile_m=8,zero_points=true",
          "weight_sums = NULL: the tensor is needed");
  refused(
      [](Given& a) {
        a.activation_zeros = address<std::int32_t>(0x6000);
        a.weight_sums = address<std::int32_t>(0x7004);
      },
      "w8a8_gemm:tile_m=8,zero_points=true",
      "weight_sums at 0x7004: the address is not a multiple of 16 bytes; accepted: what cuMemAlloc gives, and "
      "multiples "
      "of 16 from there");
  refused(
      [](Given& a) { a.weight_sums = address<std::int32_t>(0x7000); }, "w8a8_gemm:tile_m=8",
      "weight_sums at 0x7000: the descriptor does not have zero_points=true; give NULL, or ask for zero_points=true in "
      "the descriptor");
  constexpr const char* kSecond = "w8a8_gemm:tile_m=8,second_output=int8";
  refused([](Given& a) { a.second_output = address(0x7000); }, kSecond, "second_scale = NULL: the tensor is needed");
  refused([](Given& a) { a.second_scale = address<float>(0x7000); }, kSecond,
          "second_output = NULL: the tensor is needed");
  refused(
      [](Given& a) {
        a.second_scale = address<float>(0x6000);
        a.second_output = address(0x7000);
        a.second_stride = 516;
      },
      kSecond, "second_stride = 516: it must be a multiple of 8 elements from 0 to 2^30");
  refused([](Given&) {}, "w8a8_gemm:tile_m=8,output=int8", "output_scale = NULL: the tensor is needed");
  refused([](Given& a) { a.constant_weights = 2; }, "w8a8_gemm:tile_m=8", "constant_weights = 2: it must be 0 or 1");
  refused([](Given& a) { a.activation_stride = 0; }, "w8a8_gemm:tile_m=128",
          "activation_stride = 0: a tensor map reads the rows of activations, and its stride must be a multiple of 16 "
          "bytes from 16 on");
}

TEST(W8a8Problem, RefusesScalesThatNoQuantiserWrites) {
  const std::string text = "w8a8_gemm:weight_scale=tensor";
  const auto& problems = check::find_problems(text);
  const auto made = problems.random(text, {{"m", 2}, {"n", 8}, {"k", 16}}, 1);
  for (const float scale : {0.F, -1.F, std::numeric_limits<float>::infinity()}) {
    std::vector<check::Tensor> inputs = made->inputs();
    float given = scale;
    for (check::Tensor& input : inputs)
      if (input.name == "weight_scales") input.data = &given;
    tests::expect_refused_with([&] { problems.problem(text, inputs, {}); }, "it must be positive and finite");
  }
}

/// Sums of other weights would shift all results without a trace.
TEST(W8a8Problem, RefusesSumsOfOtherWeights) {
  const std::string text = "w8a8_gemm:zero_points=true";
  const auto& problems = check::find_problems(text);
  const auto made = problems.random(text, {{"m", 2}, {"n", 8}, {"k", 16}}, 1);
  std::vector<check::Tensor> inputs = made->inputs();
  std::vector<std::int32_t> sums(8, 1 << 20);
  for (check::Tensor& input : inputs)
    if (input.name == "weight_sums") input.data = sums.data();
  tests::expect_refused_with([&] { problems.problem(text, inputs, {}); }, "row 0 of weights has the sum");
}

TEST(W8a8Kernels, CompileWithoutSpills) {
  std::vector<tests::KernelFor> kernels;
  for (const char* const architecture : {"sm_75", "sm_80", "sm_86", "sm_89", "sm_90a", "sm_100a", "sm_120"}) {
    for (const char* const tile : {"8", "16", "32", "64"}) {
      const std::string text = std::string("w8a8_gemm:tile_m=") + tile;
      kernels.push_back({text, architecture});
      kernels.push_back({text + ",output=int8,function=silu_gate,bias=true,residual=true", architecture});
    }
  }
  kernels.push_back({"w8a8_gemm:element=fp8_e4m3,output=fp8_e4m3,tile_m=64", "sm_89"});
  kernels.push_back({"w8a8_gemm:element=fp8_e4m3,output=bf16,tile_m=64,atomic_splits=true", "sm_120"});
  kernels.push_back({"w8a8_gemm:output=int32,tile_m=64,atomic_splits=true", "sm_80"});
  kernels.push_back({"w8a8_gemm:output=int32,tile_m=64,atomic_splits=true", "sm_75"});
  for (const char* const architecture : {"sm_75", "sm_80", "sm_120"})
    for (const char* const fields : {"zero_points=true", "second_output=int8", "second_output=fp8_e4m3,output=bf16"})
      kernels.push_back({fmt::format("w8a8_gemm:{},tile_m=64,function=silu_gate,bias=true", fields), architecture});
  for (const char* const tile : {"8", "64"})
    kernels.push_back(
        {std::string("w8a8_gemm:output=int8,function=silu_gate,bias=true,family=sm75,tile_m=") + tile, "sm_80"});
  for (const char* const tile : {"16", "32", "64", "128", "192", "256"}) {
    const std::string text = std::string(",tile_m=") + tile;
    const std::string all = ",function=silu_gate,bias=true,residual=true";
    kernels.push_back({"w8a8_gemm:output=int32" + text, "sm_90a"});
    kernels.push_back({"w8a8_gemm:output=bf16" + text + all, "sm_90a"});
    kernels.push_back({"w8a8_gemm:output=int8" + text + ",function=gelu,bias=true,residual=true", "sm_90a"});
    kernels.push_back({"w8a8_gemm:zero_points=true,second_output=int8" + text + all, "sm_90a"});
    kernels.push_back({"w8a8_gemm:second_output=fp8_e4m3,output=bf16" + text, "sm_90a"});
    kernels.push_back({"w8a8_gemm:element=fp8_e4m3" + text, "sm_90a"});
    kernels.push_back({"w8a8_gemm:element=fp8_e4m3,output=fp8_e4m3" + text + all, "sm_90a"});
  }
  for (const char* const tile : {"16", "64", "128"}) {
    const std::string promoted = std::string("w8a8_gemm:element=fp8_e4m3,accumulate=promoted,tile_m=") + tile;
    kernels.push_back({promoted, "sm_90a"});
    kernels.push_back({promoted + ",output=fp8_e4m3,function=silu_gate,bias=true,residual=true", "sm_90a"});
  }
  kernels.push_back({"w8a8_gemm:element=fp8_e4m3,accumulate=promoted,tile_m=64,function=silu_gate", "sm_89"});
  kernels.push_back({"w8a8_gemm:element=fp8_e4m3,accumulate=promoted,tile_m=8", "sm_120"});
  kernels.push_back({"w8a8_gemm:element=fp8_e4m3,accumulate=promoted,tile_m=64,family=sm80", "sm_90a"});
  kernels.push_back({"w8a8_gemm:element=fp8_e4m3,accumulate=promoted,tile_m=32,function=silu_gate", "sm_100a"});
  kernels.push_back({"w8a8_gemm:element=fp8_e4m3,accumulate=promoted,output=int8,tile_m=64", "sm_120"});
  tests::expect_no_spills(kernels);
}

}  // namespace
}  // namespace cubit::ops
