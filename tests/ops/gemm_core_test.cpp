// Plans and launches of ops/gemm for a made-up operator with 8-bit operands, sums of 32 bits and no groups of scales.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "ops/gemm/boxes.hpp"
#include "ops/gemm/sm80/sm80.hpp"
#include "ops/gemm/sm90_persistent/sm90_persistent.hpp"
#include "ops/gemm/workspace.hpp"
#include "tests/ops/toy_gemm.hpp"

namespace cubit::ops::gemm {
namespace {

using tests::address;
using tests::h200;
using toy::describe;
using toy::kStageK;
using toy::mma_sync_weights;
using toy::problem_of;

std::string plan_header(const codegen::KernelSource& source) {
  const auto found = std::find_if(source.headers.begin(), source.headers.end(),
                                  [](const codegen::Header& one) { return one.name == "plan.cuh"; });
  return found == source.headers.end() ? "" : found->text;
}

TEST(GemmCore, PlansMmaSyncKernelsOf8BitOperandsWithoutGroups) {
  const auto& architecture = codegen::find_architecture("sm_80");
  ASSERT_EQ(sm80::why_not(8, codegen::MmaType::int8, architecture), std::nullopt);
  EXPECT_EQ(sm80::why_not(8, codegen::MmaType::int8, codegen::find_architecture("sm_75")),
            "it needs cp.async, which sm_80 brought");
  const sm80::Plan plan = sm80::make_plan(describe(16), mma_sync_weights(), architecture);
  EXPECT_EQ(mma_sync::stage_bytes(plan.block), 256 * kStageK + 16 * kStageK) << "and no scales";
  EXPECT_GE(plan.block.stages, 2);

  PlanReport report;
  write_report(report, plan, {{"operands", "int8", "as they are"}}, architecture);
  std::vector<std::string> proofs;
  for (const auto& proof : report.proofs) {
    EXPECT_EQ(proof.degree, 1) << proof.access;
    proofs.push_back(proof.access);
  }
  EXPECT_EQ(proofs, (std::vector<std::string>{"cp.async of words", "ldmatrix of weights", "cp.async of activations",
                                              "ldmatrix of activations"}));
  EXPECT_EQ(report.fragments,
            (std::vector<std::string>{"mma.m16n8k32 A, 8-bit", "mma.m16n8k32 B, 8-bit", "mma.m16n8k32 C, 32-bit"}));
  const std::string header = plan_header(make_source(plan, architecture));
  EXPECT_NE(header.find("using Weights = Toy;"), std::string::npos) << header;
  EXPECT_NE(header.find("using Activations = ToyActivations;"), std::string::npos) << header;
  EXPECT_NE(header.find("using Product = ToyProduct;"), std::string::npos) << header;
  for (const char* constant : {"kGroup", "kStoredZeros", "kZeroOffset", "kScalesAt", "kZerosAt"})
    EXPECT_EQ(header.find(constant), std::string::npos) << constant;
}

TEST(GemmCore, EncodesLaunchesByBytesOfTheOperands) {
  const sm80::Plan plan = sm80::make_plan(describe(16), mma_sync_weights(), *h200().architecture);
  const ScheduledLaunch scheduled = schedule_launch(plan.block, problem_of(16, 1024, 8192), h200());
  EXPECT_EQ(scheduled.schedule.stages, 8192 / kStageK);
  EXPECT_GT(scheduled.schedule.splits, 1);
  EXPECT_GT(workspace_bytes(plan.block, scheduled, h200()), 0u);
  const Launch launch = encode_launch(plan, scheduled, {.words = address(0x3000)}, address(0x100000), h200());
  const auto parameters = tests::parameters_of<PackedGemmArguments>(launch);
  EXPECT_EQ(parameters.weights, address(0x3000));
  EXPECT_EQ(parameters.activation_stride, 8192 + 64);
  EXPECT_EQ(parameters.output_stride, 2 * 1024);
  EXPECT_EQ(parameters.scales, nullptr);
}

sm90_persistent::Weights persistent_weights() {
  sm90_persistent::Weights weights;
  weights.stage_k = kStageK;
  weights.words = box_layout(128, kStageK, kStageK);
  weights.role = {"weight_format/w8_words_by_k.cuh", "Toy"};
  weights.product = {"gemm/warpgroup_product.cuh", "ToyProduct"};
  weights.row_scaling = Role{"gemm/scaling.cuh", "ToyScales"};
  weights.times = PersistentTimes{.slab = 0.5, .full_slab = 0.6, .epilogue = 2, .exchange = 2};
  return weights;
}

TEST(GemmCore, PlansPersistentKernelsOf8BitOperands) {
  const auto& architecture = *h200().architecture;
  const sm90_persistent::Plan plan = sm90_persistent::make_plan(describe(128), persistent_weights(), architecture);
  EXPECT_EQ(plan.stage_bytes(), 2 * 128 * kStageK);
  const std::string header = plan_header(make_source(plan, architecture));
  EXPECT_NE(header.find("using Product = ToyProduct;"), std::string::npos) << header;
  EXPECT_NE(header.find("using Scaling = ToyScales;"), std::string::npos);

  const ScheduledLaunch scheduled = schedule_launch(plan.block, problem_of(1024, 8192, 4096), h200());
  EXPECT_EQ(scheduled.schedule.stages, 4096 / kStageK);
  const runtime::TensorMap words = box_map(address(0x3000), 1, 4096, 8192, 4096, plan.block.tiles.words);
  EXPECT_GT(workspace_bytes(plan.block, scheduled, h200()), 0u);
  const Launch launch =
      encode_launch(plan, scheduled, {.words = address(0x3000), .word_map = words}, address(0x100000), h200());
  ASSERT_EQ(launch.maps.all().size(), 3u);
  EXPECT_EQ(launch.maps.all()[0].map, words);
  const runtime::TensorMap& activations = launch.maps.all()[1].map;
  EXPECT_EQ(activations.element_bytes, 1);
  EXPECT_EQ(activations.strides[0], 4096u + 64);
  EXPECT_EQ(activations.box[0], 128u);
  EXPECT_EQ(activations.box[1], 64u) << "half of the rows, because the blocks of a cluster share them";
}

GemmDescriptor with_8_bit_outputs(GemmDescriptor descriptor) {
  descriptor.output_bytes = 1;
  return descriptor;
}

TEST(GemmCore, TakesTheOperatorsEpilogueAndOutputs) {
  const auto& architecture = *h200().architecture;
  const std::string usual =
      plan_header(make_source(sm80::make_plan(describe(16), mma_sync_weights(), architecture), architecture));
  EXPECT_NE(usual.find("using Epilogue = cubit::GemmEpilogue<Element, cubit::Identity, false, false, false>;"),
            std::string::npos);
  mma_sync::Weights weights = mma_sync_weights();
  weights.epilogue = Role{"gemm/epilogue.cuh", "ToyEpilogue<Element>"};
  const sm80::Plan plan = sm80::make_plan(with_8_bit_outputs(describe(16)), weights, architecture);
  EXPECT_NE(plan_header(make_source(plan, architecture)).find("using Epilogue = ToyEpilogue<Element>;"),
            std::string::npos);
  const ScheduledLaunch scheduled = schedule_launch(plan.block, problem_of(16, 1024, 8192), h200());
  const Launch launch = encode_launch(plan, scheduled, {.words = address(0x3000)}, address(0x100000), h200());
  EXPECT_EQ(tests::parameters_of<PackedGemmArguments>(launch).output_stride, 1024);
}

TEST(GemmCore, StoresOutputsOfPersistentKernelsInBoxesOfTheirType) {
  const auto& architecture = *h200().architecture;
  sm90_persistent::Weights weights = persistent_weights();
  weights.epilogue = Role{"gemm/staged_epilogue.cuh", "ToyEpilogue<staging>"};
  const auto plan = sm90_persistent::make_plan(with_8_bit_outputs(describe(128)), weights, architecture);
  EXPECT_EQ(plan.staging.row_bytes, 64) << "a warpgroup's outputs";
  EXPECT_NE(plan_header(make_source(plan, architecture)).find("using Epilogue = ToyEpilogue<staging>;"),
            std::string::npos);
  const ScheduledLaunch scheduled = schedule_launch(plan.block, problem_of(1024, 8192, 4096), h200());
  const runtime::TensorMap words = box_map(address(0x3000), 1, 4096, 8192, 4096, plan.block.tiles.words);
  const Launch launch =
      encode_launch(plan, scheduled, {.words = address(0x3000), .word_map = words}, address(0x100000), h200());
  ASSERT_EQ(launch.maps.all().size(), 3u);
  const runtime::TensorMap& outputs = launch.maps.all()[2].map;
  EXPECT_EQ(outputs.element_bytes, 1);
  EXPECT_EQ(outputs.strides[0], 8192u);
  EXPECT_EQ(outputs.box[0], 64u);
}

TEST(GemmCore, RefusesSizesAndTensorsByTheCommonRules) {
  const auto refusal = [](const auto& call) -> std::string {
    try {
      call();
      return "";
    } catch (const Failure& failure) {
      return failure.what();
    }
  };
  EXPECT_EQ(refusal([] { check_sizes(describe(16), 1, 256, 112); }), "");
  EXPECT_EQ(refusal([] { check_sizes(describe(16), 1, 256, 104); }), "k = 104: it must be a multiple of 16");
  EXPECT_NE(refusal([] { check_sizes(describe(16), 1, 12, 128); }).find("n = 12"), std::string::npos);
  Problem problem = problem_of(2, 256, 128);
  EXPECT_EQ(refusal([&] { check_tensors(describe(16), problem); }), "");
  problem.output_stride = 128;
  EXPECT_NE(refusal([&] { check_tensors(describe(16), problem); }).find("output_stride"), std::string::npos);
  problem.output_stride = 264;
  EXPECT_EQ(refusal([&] { check_tensors(describe(16), problem); }), "");
  EXPECT_EQ(refusal([&] { check_tensors(with_8_bit_outputs(describe(16)), problem); }),
            "output_stride = 264: it must be a multiple of 16 elements from 0 to 2^30");
}

}  // namespace
}  // namespace cubit::ops::gemm
