// merge without running kernels: descriptor texts, plans, refusals of launches and problems, and reference results that
// can be worked out by hand. tests/cover checks what kernels compute.
#include <cubit/merge.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "check/merge/problem.hpp"
#include "ops/merge/merge.hpp"
#include "templates/kernels/attention/merge_arguments.h"
#include "tests/support/compiled.hpp"
#include "tests/support/descriptor_texts.hpp"
#include "tests/support/launches.hpp"
#include "tests/support/one_pass_launches.hpp"
#include "tests/support/refusals.hpp"

namespace cubit::ops {
namespace {

using tests::address;
using tests::expect_refused;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

std::vector<Merge> all_merges() {
  std::vector<Merge> all;
  for (int head_dim = 8; head_dim <= 512; head_dim += 8)
    for (const MergeElement input : {MergeElement::bf16, MergeElement::fp16, MergeElement::fp32})
      for (const MergeElement output : {MergeElement::bf16, MergeElement::fp16, MergeElement::fp32})
        all.push_back({head_dim, input, output});
  return all;
}

TEST(MergeDescriptor, EveryValueHasOneTextThatParsesBackToIt) {
  tests::expect_one_text_each(all_merges(), merge::parse);
  EXPECT_EQ(Merge{}.text(), "merge");
}

TEST(MergeDescriptor, RefusesByName) {
  expect_refused([] { merge::parse("merge:head_dim=12"); },
                 "descriptor \"merge:head_dim=12\": 12 is not a value of head_dim; accepted: 8 to 512 in steps of 8");
  expect_refused([] { merge::parse("merge:head_dim=520"); },
                 "descriptor \"merge:head_dim=520\": 520 is not a value of head_dim; accepted: 8 to 512 in steps of 8");
  expect_refused([] { merge::parse("merge:input=fp64"); },
                 "descriptor \"merge:input=fp64\": fp64 is not a value of input; accepted: bf16, fp16, fp32");
  expect_refused([] { merge::parse("merge:parts=2"); },
                 "descriptor \"merge:parts=2\": merge has no field parts; accepted fields: head_dim, input, output");
}

/// Arguments with dense tensors of 3 parts, 5 rows and 7 heads.
cubit_merge_arguments dense_arguments(std::int64_t head_dim) {
  cubit_merge_arguments arguments{};
  arguments.size = sizeof arguments;
  arguments.partial_outputs = address(0x1000);
  arguments.partial_lse = address<float>(0x2000);
  arguments.output = address(0x3000);
  arguments.lse = address<float>(0x4000);
  const std::int64_t strides[] = {35, 7, 1};
  for (int i = 0; i < 3; ++i) {
    arguments.partial_output_strides[i] = strides[i] * head_dim;
    arguments.partial_lse_strides[i] = strides[i];
  }
  for (int i = 0; i < 2; ++i) {
    arguments.output_strides[i] = strides[i + 1] * head_dim;
    arguments.lse_strides[i] = strides[i + 1];
  }
  arguments.parts = 3;
  arguments.rows = 5;
  arguments.heads = 7;
  return arguments;
}

MergeArguments merge_parameters(const Launch& launch) { return tests::parameters_of<MergeArguments>(launch); }

TEST(MergeLaunch, HasAThreadForEvery16BytesOfTheWiderType) {
  const auto arguments = dense_arguments(80);
  const Launch narrow = tests::encode(merge::parse("merge:head_dim=80,input=fp16"), &arguments);
  EXPECT_EQ(merge_parameters(narrow).items, 35u * 10);
  EXPECT_EQ(narrow.shape.grid[0], 3u);
  EXPECT_EQ(merge_parameters(narrow).partial_output_strides[0], 2 * 35 * 80) << "in bytes";
  EXPECT_EQ(merge_parameters(narrow).partial_lse_strides[1], 4 * 7);
  const Launch wide = tests::encode(merge::parse("merge:head_dim=80,output=fp32"), &arguments);
  EXPECT_EQ(merge_parameters(wide).items, 35u * 20);
  EXPECT_EQ(merge_parameters(wide).output_strides[0], 4 * 7 * 80);
  EXPECT_EQ(merge_parameters(wide).lse_strides[1], 4);
  EXPECT_EQ(merge_parameters(wide).heads.divisor, 7u);
  EXPECT_EQ(merge_parameters(wide).parts, 3);
}

TEST(MergeLaunch, OfNoRowsIsEmptyWhateverThePointers) {
  cubit_merge_arguments arguments{};
  arguments.size = sizeof arguments;
  arguments.parts = 2;
  arguments.heads = 1;
  EXPECT_TRUE(tests::encode(Merge{}, &arguments).empty);
}

TEST(MergeLaunch, RefusesByName) {
  const auto refused = [](void (*change)(cubit_merge_arguments&), const char* text, const std::string& sentence) {
    const Merge descriptor = merge::parse(text);
    auto arguments = dense_arguments(descriptor.head_dim);
    EXPECT_FALSE(tests::encode(descriptor, &arguments).empty);
    change(arguments);
    expect_refused([&] { tests::encode(descriptor, &arguments); }, sentence);
  };
  using Given = cubit_merge_arguments;
  refused([](Given& a) { a.parts = 0; }, "merge", "parts = 0: it must be from 1 to 2147483644");
  refused([](Given& a) { a.parts = 2147483645; }, "merge", "parts = 2147483645: it must be from 1 to 2147483644");
  refused([](Given& a) { a.rows = -1; }, "merge", "rows = -1: it must be from 0 to 2147483647");
  refused([](Given& a) { a.heads = 0; }, "merge", "heads = 0: it must be from 1 to 2147483647");
  refused(
      [](Given& a) {
        a.rows = 1 << 23;
        a.heads = 8;
      },
      "merge", "rows * heads = 67108864: times head_dim it must be below 2^33");
  refused([](Given& a) { a.partial_outputs = nullptr; }, "merge", "partial_outputs = NULL: the tensor is needed");
  refused([](Given& a) { a.partial_lse = nullptr; }, "merge", "partial_lse = NULL: the tensor is needed");
  refused([](Given& a) { a.output = nullptr; }, "merge", "output = NULL: the tensor is needed");
  refused([](Given& a) { a.partial_outputs = address(0x1008); }, "merge",
          "partial_outputs at 0x1008: the address is not a multiple of 16 bytes; align it, and pad its rows");
  refused([](Given& a) { a.partial_output_strides[1] = 130; }, "merge",
          "partial_outputs stride 1 of 260 bytes: it is not a multiple of 16 bytes; align it, and pad its rows");
  refused([](Given& a) { a.output_strides[0] = 2; }, "merge:output=fp32",
          "output stride 0 of 8 bytes: it is not a multiple of 16 bytes; align it, and pad its rows");
  refused([](Given& a) { a.lse = address<float>(0x4002); }, "merge",
          "lse at 0x4002: the address is not a multiple of 4 bytes; align it, and pad its rows");
  const auto overwriting = [](const std::string& given, int within) {
    return fmt::format(
        "{}: outputs would overwrite one another, for the dimensions within this stride span {}; accepted: a "
        "magnitude of {} and more",
        given, within == 1 ? "1 element" : fmt::format("{} elements", within), within);
  };
  refused([](Given& a) { a.output_strides[0] = 0; }, "merge", overwriting("output_strides[0] = 0", 128));
  refused([](Given& a) { a.output_strides[1] = -120; }, "merge", overwriting("output_strides[1] = -120", 128));
  refused([](Given& a) { a.output_strides[0] = 888; }, "merge", overwriting("output_strides[0] = 888", 896));
  refused([](Given& a) { a.lse_strides[0] = 6; }, "merge", overwriting("lse_strides[0] = 6", 7));
  refused([](Given& a) { a.lse_strides[1] = 0; }, "merge", overwriting("lse_strides[1] = 0", 1));
  const std::string overlapping =
      "output = partial_outputs: rows would be overwritten before they are read, for the output's type or strides "
      "differ from the parts'; accepted: a part as the output if both have the same type and strides, else tensors "
      "that do not overlap";
  const auto take_first_part = [](Given& a) { a.output = const_cast<void*>(a.partial_outputs); };
  refused(take_first_part, "merge:input=fp16,output=fp32", overlapping);
  refused(
      [](Given& a) {
        a.output = const_cast<void*>(a.partial_outputs);
        a.output_strides[0] += 128;
      },
      "merge", overlapping);
  auto in_place = dense_arguments(128);
  take_first_part(in_place);
  EXPECT_FALSE(tests::encode(Merge{}, &in_place).empty);
  auto without_lse = dense_arguments(128);
  without_lse.lse = nullptr;
  without_lse.lse_strides[0] = without_lse.lse_strides[1] = 0;
  EXPECT_FALSE(tests::encode(Merge{}, &without_lse).empty) << "strides of nothing";
  // If one type is float, a thread has 8 bytes of a row of the 16-bit type.
  auto arguments = dense_arguments(128);
  arguments.output = address(0x3008);
  EXPECT_FALSE(tests::encode(merge::parse("merge:input=fp32"), &arguments).empty);
}

/// A case with 3 parts of 2 rows and 2 heads of 8 channels. The values of the parts are 1, 2 and 4.
struct Case {
  std::vector<float> outputs = std::vector<float>(3 * 2 * 2 * 8);
  std::vector<float> lse = std::vector<float>(3 * 2 * 2, 0.f);
  std::string text = "merge:head_dim=8,input=fp32,output=fp32";
  Numbers numbers = {{"lse", 1}};

  Case() {
    for (std::size_t i = 0; i < outputs.size(); ++i) outputs[i] = static_cast<float>(1 << (i / 32));
  }
  std::vector<check::Tensor> tensors() {
    return {{"partial_outputs", "F32", {3, 2, 2, 8}, {}, outputs.data()},
            {"partial_lse", "F32", {3, 2, 2}, {}, lse.data()}};
  }
  std::unique_ptr<check::Problem> problem() { return check::find_problems(text).problem(text, tensors(), numbers); }
};

TEST(MergeProblem, WeighsPartsByTheirExponentials) {
  Case one;
  const float ln2 = std::log(2.f);
  // Row 0: head 0 has the weights 1, 1, 2, and head 1 has only the second part. Row 1: head 0 has no part, and in head
  // 1 all parts weigh the same.
  const float lse[3][4] = {{0, -kInfinity, -kInfinity, 5}, {0, 3, -kInfinity, 5}, {ln2, -kInfinity, -kInfinity, 5}};
  for (int part = 0; part < 3; ++part) std::copy_n(lse[part], 4, one.lse.begin() + 4 * part);
  // The outputs of empty parts may hold anything.
  for (int i = 0; i < 8; ++i) one.outputs[8 + i] = std::numeric_limits<float>::quiet_NaN();
  const auto problem = one.problem();
  ASSERT_EQ(problem->outputs().size(), 2u);
  EXPECT_EQ(problem->outputs()[0].shape, (std::vector<std::int64_t>{2, 2, 8}));
  EXPECT_EQ(problem->outputs()[1].shape, (std::vector<std::int64_t>{2, 2}));
  std::vector<float> output(32);
  const float values[] = {(1 + 2 + 2 * 4) / 4.f, 2, 0, 7 / 3.f};
  for (int i = 0; i < 32; ++i) output[i] = values[i / 8];
  std::vector<float> merged = {2 * ln2, 3, -kInfinity, 5 + std::log(3.f)};
  const void* got[] = {output.data(), merged.data()};
  EXPECT_LE(problem->compare(got).error, problem->compare(got).tolerance) << problem->compare(got).worst;
  EXPECT_EQ(problem->bytes_read(), 4u * (96 + 12));
  EXPECT_EQ(problem->bytes_written(), 4u * (32 + 4));

  output[9] = 2.001f;
  EXPECT_GT(problem->compare(got).error, problem->compare(got).tolerance);
  EXPECT_EQ(problem->compare(got).worst, "row 0, head 1");
  output[9] = 2;
  merged[2] = 0;
  EXPECT_EQ(problem->compare(got).worst, "row 1, head 0");
  EXPECT_GT(problem->compare(got).error, problem->compare(got).tolerance);
  merged[2] = -kInfinity;
  output[31] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(problem->compare(got).error, kInfinity);
}

TEST(MergeProblem, RowsMayHaveAnyDimensions) {
  Case one;
  one.numbers.clear();
  auto tensors = one.tensors();
  tensors[0].shape = {3, 1, 2, 1, 2, 8};
  tensors[1].shape = {3, 1, 2, 1, 2};
  const auto problem = check::find_problems(one.text).problem(one.text, tensors, one.numbers);
  ASSERT_EQ(problem->outputs().size(), 1u);
  EXPECT_EQ(problem->outputs()[0].shape, (std::vector<std::int64_t>{1, 2, 1, 2, 8}));
  tensors[0].shape = {3, 4, 8};
  tensors[1].shape = {3, 4};
  EXPECT_EQ(check::find_problems(one.text).problem(one.text, tensors, {})->outputs()[0].shape,
            (std::vector<std::int64_t>{4, 8}));
}

TEST(MergeProblem, RefusesByName) {
  const auto refused = [](void (*change)(std::vector<check::Tensor>&, Numbers&), const std::string& sentence) {
    Case one;
    auto tensors = one.tensors();
    change(tensors, one.numbers);
    expect_refused([&] { check::find_problems(one.text).problem(one.text, tensors, one.numbers); }, sentence);
  };
  using Given = std::vector<check::Tensor>;
  refused([](Given& t, Numbers&) { t.pop_back(); },
          "tensors without partial_lse: merge needs partial_outputs and partial_lse; give both");
  refused([](Given& t, Numbers&) { t[0].name = "output"; },
          "tensor output: merge has no such input; accepted: partial_outputs, partial_lse");
  refused([](Given& t, Numbers&) { t[0].type = "F16"; }, "tensor partial_outputs of type F16: it must be F32");
  refused(
      [](Given& t, Numbers&) {
        t[0].shape = {12, 8};
      },
      "tensor partial_outputs [12, 8]: it must have the dimensions [parts, rows..., heads, head_dim]");
  refused(
      [](Given& t, Numbers&) {
        t[0].shape = {3, 1, 2, 16};
      },
      "tensor partial_outputs [3, 1, 2, 16]: it must have the dimensions [parts, rows..., heads, head_dim]; accepted "
      "beside the other tensors: [3, 1, 2, 8]");
  refused(
      [](Given& t, Numbers&) {
        t[1].shape = {2, 2, 3};
      },
      "tensor partial_lse [2, 2, 3]: it must have the dimensions [parts, rows..., heads]; accepted beside the other "
      "tensors: [3, 2, 2]");
  refused([](Given& t, Numbers&) { t[0].shape[0] = t[1].shape[0] = 0; }, "parts = 0: it must be from 1 to 2147483644");
  refused(
      [](Given&, Numbers& numbers) {
        numbers = {{"splits", 2}};
      },
      "number splits: merge has no such launch argument; accepted: lse");
  refused(
      [](Given&, Numbers& numbers) {
        numbers = {{"lse", 2}};
      },
      "lse = 2: it is not a number that is accepted; accepted: whole numbers from 0 to 1");
  expect_refused(
      [] {
        check::find_problems("merge").random("merge", {{"tokens", 2}}, 1);
      },
      "size tokens: merge has no such size; accepted: parts, rows, heads, lse, pattern");
  expect_refused(
      [] {
        check::find_problems("merge").random("merge", {{"rows", 1 << 24}, {"heads", 64}}, 1);
      },
      "partial outputs of 549755813888 values: made-up data is limited to 64 GiB; ask for fewer parts, rows "
      "or heads");
}

// Compiles every thirteenth descriptor for one architecture, in rotation. tests/cover compiles and runs other
// descriptors.
TEST(MergePlan, CompilesForEveryArchitectureWithoutSpills) {
  std::vector<std::string> texts;
  for (const Merge& descriptor : all_merges()) texts.push_back(descriptor.text());
  constexpr int kMostRegisters = 64;  // with more, 8 blocks of 128 threads, half of an SM's threads, would not fit
  tests::expect_no_spills(tests::some_in_turn(texts, 13), kMostRegisters);
}

}  // namespace
}  // namespace cubit::ops
