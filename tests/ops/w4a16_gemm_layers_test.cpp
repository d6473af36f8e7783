// Tests of w4a16_gemm with several layers, without a device: descriptors, sets, and what a launch passes to the kernel.
#include <cubit/w4a16_gemm.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <limits>
#include <string>

#include "base/error.hpp"
#include "ops/argument_checks.hpp"
#include "ops/gemm/sets/tile_choice.hpp"
#include "ops/w4a16_gemm/w4a16_gemm.hpp"
#include "templates/weight_format/fused_gemm_arguments.h"
#include "tests/support/gemm_launches.hpp"
#include "tests/support/refusals.hpp"

namespace cubit::ops {
namespace {

using ::testing::HasSubstr;
using tests::address;
using tests::h200;
using tests::plan_of;
using tests::refusal_of;
using Arguments = cubit_w4a16_gemm_arguments;

Arguments arguments_of_layers(int n, int n_2, int n_3) {
  Arguments arguments = tests::arguments_of(11, n, 1024);
  arguments.output_stride = n + n_2 + n_3;
  arguments.n_2 = n_2;
  arguments.qweight_2 = address(0x12000);
  arguments.qzeros_2 = address(0x13000);
  arguments.scales_2 = address(0x14000);
  if (n_3 == 0) return arguments;
  arguments.n_3 = n_3;
  arguments.qweight_3 = address(0x22000);
  arguments.qzeros_3 = address(0x23000);
  arguments.scales_3 = address(0x24000);
  return arguments;
}

TEST(GemmLayers, TheTextSaysHowMany) {
  const W4a16Gemm three = {.tile_m = 16, .tile_n = 256, .layers = 3};
  EXPECT_EQ(three.text(), "w4a16_gemm:tile_m=16,tile_n=256,layers=3");
  EXPECT_EQ(w4a16_gemm::parse("w4a16_gemm:layers=3,tile_n=256,tile_m=16"), three);
  EXPECT_EQ(w4a16_gemm::parse("w4a16_gemm:layers=1").text(), "w4a16_gemm");
  EXPECT_EQ(refusal_of([] { w4a16_gemm::parse("w4a16_gemm:layers=4"); }).substr(0, 32),
            "descriptor \"w4a16_gemm:layers=4\"");
}

TEST(GemmLayers, OtherFieldsMayRuleThemOut) {
  EXPECT_EQ(
      refusal_of([] { w4a16_gemm::parse("w4a16_gemm:function=silu_gate,layers=3"); }),
      "descriptor \"w4a16_gemm:function=silu_gate,layers=3\": function=silu_gate has one layer of gates and one of "
      "up-projections, not a third one; ask for layers=2, or for layers=1 if one layer has both");
  EXPECT_EQ(
      refusal_of([] { w4a16_gemm::parse("w4a16_gemm:format=dense,layers=2"); }),
      "descriptor \"w4a16_gemm:format=dense,layers=2\": there is no kernel of several layers of dense weights yet; "
      "leave layers out");
  for (const char* text : {"w4a16_gemm:layers=2,family=sm90,tile_m=32,tile_n=256",
                           "w4a16_gemm:layers=2,family=sm90_persistent,tile_m=128,tile_n=256",
                           "w4a16_gemm:layers=2,tile_m=128,tile_n=256", "w4a16_gemm:layers=2,tile_m=8,tile_n=128"})
    EXPECT_THAT(refusal_of([&] { w4a16_gemm::parse(text); }), HasSubstr("its tensor maps belong to one layer")) << text;
}

/// A set of several layers has the tiles of the families that serve them, on every architecture.
TEST(GemmLayers, SetsHaveMembersOnEveryArchitecture) {
  for (const char* name : {"sm_75", "sm_80", "sm_86", "sm_89", "sm_90a", "sm_100a", "sm_120"}) {
    const auto& architecture = codegen::find_architecture(name);
    for (const char* text :
         {"w4a16_gemm:layers=3", "w4a16_gemm:layers=2,function=silu_gate", "w4a16_gemm:layers=2,bits=8"})
      EXPECT_GE(w4a16_gemm::members(w4a16_gemm::parse(text), architecture).size(), 3u) << text << " for " << name;
  }
}

FusedGemmArguments parameters_of(const Launch& launch) {
  FusedGemmArguments parameters;
  EXPECT_EQ(launch.parameter_bytes, sizeof parameters);
  std::memcpy(&parameters, launch.parameters.data(), sizeof parameters);
  return parameters;
}

TEST(GemmLayers, TilesAreCountedLayerByLayer) {
  const auto plan = plan_of("w4a16_gemm:tile_m=16,tile_n=256,layers=3");
  Arguments arguments = arguments_of_layers(264, 96, 512);
  arguments.decomposition = CUBIT_W4A16_DATA_PARALLEL;
  const Launch launch = plan.encode(arguments, nullptr, 0, h200());
  EXPECT_EQ(launch.shape.grid, (std::array<unsigned, 3>{1, 2 + 1 + 2, 1}));
  const FusedGemmArguments parameters = parameters_of(launch);
  EXPECT_EQ(parameters.n, 264 + 96 + 512);
  EXPECT_EQ(parameters.weights, arguments.qweight);
  EXPECT_EQ(parameters.more[0].first_column, 264);
  EXPECT_EQ(parameters.more[0].first_tile, 2);
  EXPECT_EQ(parameters.more[0].weights, arguments.qweight_2);
  EXPECT_EQ(parameters.more[0].scales, arguments.scales_2);
  EXPECT_EQ(parameters.more[1].first_column, 264 + 96);
  EXPECT_EQ(parameters.more[1].first_tile, 3);
  EXPECT_EQ(parameters.more[1].qzeros, arguments.qzeros_3);
}

/// The third of two layers begins behind everything.
TEST(GemmLayers, TwoLayersHaveNoThirdOne) {
  const auto plan = plan_of("w4a16_gemm:tile_m=16,tile_n=256,layers=2");
  Arguments arguments = arguments_of_layers(264, 96, 0);
  arguments.decomposition = CUBIT_W4A16_DATA_PARALLEL;
  const Launch launch = plan.encode(arguments, nullptr, 0, h200());
  const FusedGemmArguments parameters = parameters_of(launch);
  EXPECT_EQ(parameters.more[1].first_column, parameters.n);
  EXPECT_EQ(parameters.more[1].first_tile, static_cast<int>(launch.shape.grid[1]));
}

/// A gated tile has columns of both layers.
TEST(GemmLayers, GatesAndUpProjectionsShareTiles) {
  const auto plan = plan_of("w4a16_gemm:tile_m=16,tile_n=256,function=silu_gate,layers=2");
  Arguments arguments = arguments_of_layers(264, 264, 0);
  arguments.decomposition = CUBIT_W4A16_DATA_PARALLEL;
  const Launch launch = plan.encode(arguments, nullptr, 0, h200());
  EXPECT_EQ(launch.shape.grid[1], 3u) << "of 128 outputs each";
  EXPECT_EQ(parameters_of(launch).more[0].first_column, 264);
}

TEST(GemmLayers, AChoiceDependsOnTheColumnsOfEachLayer) {
  const auto key_of = [](int n, int n_2, int n_3) {
    gemm::Problem problem;
    problem.n = n + n_2 + n_3;
    problem.more_columns = {n_2, n_3};
    return gemm::TileChoice::key(problem);
  };
  EXPECT_NE(key_of(264, 96, 512), key_of(264, 512, 96));
  EXPECT_NE(key_of(264, 96, 512), key_of(96, 264, 512));
}

struct BadLayers {
  const char* descriptor;
  const char* sentence;
  void (*spoil)(Arguments&);
};

class BadArgumentsOfLayers : public ::testing::TestWithParam<BadLayers> {};

TEST_P(BadArgumentsOfLayers, AreRefused) {
  const auto& [descriptor, sentence, spoil] = GetParam();
  const auto plan = plan_of(descriptor);
  Arguments arguments = std::string_view(descriptor).find("layers=3") != std::string_view::npos
                            ? arguments_of_layers(264, 96, 512)
                            : arguments_of_layers(264, 264, 0);
  arguments.decomposition = CUBIT_W4A16_DATA_PARALLEL;
  spoil(arguments);
  EXPECT_THAT(refusal_of([&] { plan.encode(arguments, nullptr, 0, h200()); }), HasSubstr(sentence));
}

INSTANTIATE_TEST_SUITE_P(
    GemmLayers, BadArgumentsOfLayers,
    ::testing::Values(
        BadLayers{"w4a16_gemm:tile_m=16,tile_n=256", "n_2 = 264: it goes with layers=2 and 3 only, and must be 0 else",
                  [](Arguments&) {}},
        BadLayers{"w4a16_gemm:tile_m=16,tile_n=256", "qweight_2 at 0x12000", [](Arguments& a) { a.n_2 = 0; }},
        BadLayers{"w4a16_gemm:tile_m=16,tile_n=256,layers=2", "n_3 = 8: it goes with layers=3 only, and must be 0 else",
                  [](Arguments& a) { a.n_3 = 8; }},
        BadLayers{"w4a16_gemm:tile_m=16,tile_n=256,layers=3", "n_3 = 0: it must be a multiple of 8 from 8 to 16776960",
                  [](Arguments& a) { a.n_3 = 0; }},
        BadLayers{"w4a16_gemm:tile_m=16,tile_n=256,layers=3", "n_2 = 100: it must be a multiple of 8",
                  [](Arguments& a) { a.n_2 = 100; }},
        BadLayers{"w4a16_gemm:tile_m=16,tile_n=256,layers=3", "n = -8: it must be a multiple of 8",
                  [](Arguments& a) { a.n = -8; }},
        BadLayers{"w4a16_gemm:tile_m=16,tile_n=256,layers=2",
                  "n + n_2 + n_3 = 16777216: all layers have at most 16776960",
                  [](Arguments& a) { a.n = a.n_2 = 1 << 23; }},
        BadLayers{"w4a16_gemm:tile_m=16,tile_n=32,layers=3", "with tile_n=32 it must be at most 2097056",
                  [](Arguments& a) { a.n = (1 << 21) - 608; }},
        BadLayers{"w4a16_gemm:tile_m=16,tile_n=256,function=silu_gate,layers=2",
                  "n_2 = 256: function=silu_gate has as many up-projection columns as gate columns: n_2 must be n",
                  [](Arguments& a) { a.n_2 = 256; }},
        BadLayers{"w4a16_gemm:tile_m=16,tile_n=256,layers=3", "qweight_3 = NULL: the tensor is needed",
                  [](Arguments& a) { a.qweight_3 = nullptr; }},
        BadLayers{"w4a16_gemm:tile_m=16,tile_n=256,layers=3,bias=true", "bias = NULL: the tensor is needed",
                  [](Arguments&) {}},
        BadLayers{"w4a16_gemm:tile_m=16,tile_n=256,layers=2", "qweight_2",
                  [](Arguments& a) { a.qweight_2 = address(0x12004); }},
        BadLayers{"w4a16_gemm:tile_m=16,tile_n=256,layers=2",
                  "scales_2 at 0x14008: the address is not a multiple of 16",
                  [](Arguments& a) { a.scales_2 = address(0x14008); }},
        BadLayers{"w4a16_gemm:tile_m=16,tile_n=256,layers=2", "output_stride",
                  [](Arguments& a) { a.output_stride = a.n; }},
        BadLayers{"w4a16_gemm:format=awq,tile_m=16,tile_n=256,layers=3",
                  "n = 264: rows of qweight are 132 bytes apart, not a multiple of alignment=16", [](Arguments&) {}}));

}  // namespace
}  // namespace cubit::ops
