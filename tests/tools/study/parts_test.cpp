// Proves the host's part of `cubit study accuracy` and `cubit study kv`: matrices, the planted block, the lists of
// choices and formats, simulated formats, tables and pictures. accuracy_test.cpp runs the kernels.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "files/text/error.hpp"
#include "tools/study/accuracy/accuracy_report.hpp"
#include "tools/study/accuracy/int8_choices.hpp"
#include "tools/study/accuracy/transformer_block.hpp"
#include "tools/study/kv/kv_data.hpp"
#include "tools/study/kv/kv_report.hpp"

namespace cubit::tools {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using Json = nlohmann::ordered_json;

TEST(StudyMatrix, ProductAndErrorOfSmallMatrices) {
  const Matrix inputs = {2, 3, {1, 2, 3, -1, 0, 1}};
  const Matrix weight = {2, 3, {1, 1, 1, 0, 2, 0}};
  const Matrix made = product(inputs, weight);
  EXPECT_EQ(made.values, (std::vector<float>{6, 4, 0, 0}));
  EXPECT_EQ(relative_error(made, made), 0);
  EXPECT_DOUBLE_EQ(relative_error({1, 2, {3, 5}}, {1, 2, {3, 4}}), 0.2);
}

TEST(StudyMatrix, RandomValuesAreNormalAndRepeatable) {
  std::mt19937 first(7);
  std::mt19937 second(7);
  const Matrix made = random_matrix(first, 100, 100, 2);
  EXPECT_EQ(made.values, random_matrix(second, 100, 100, 2).values);
  double sum = 0;
  double square = 0;
  for (const float value : made.values) {
    sum += value;
    square += double{value} * value;
  }
  EXPECT_NEAR(sum / 1e4, 0, 0.1);
  EXPECT_NEAR(square / 1e4, 4, 0.3);
}

TEST(StudyMatrix, EveryFiniteHalfSurvivesARoundTrip) {
  Matrix all = {1, 0, {}};
  std::vector<std::uint16_t> bits;
  for (int i = 0; i < 1 << 16; ++i)
    if ((i & 0x7c00) != 0x7c00) bits.push_back(static_cast<std::uint16_t>(i));
  all = matrix_of_halves(1, bits.size(), std::as_bytes(std::span(bits)), "halves");
  EXPECT_EQ(half_values(all, "halves"), bits);
}

TEST(StudyMatrix, HalvesAreRoundedToEven) {
  const Matrix values = {1, 5, {1 + 0x1p-11F, 1 + 3 * 0x1p-11F, 0x1p-25F, 3 * 0x1p-25F, 65504}};
  EXPECT_EQ(half_values(values, "x"), (std::vector<std::uint16_t>{0x3c00, 0x3c02, 0, 2, 0x7bff}));
}

TEST(StudyMatrix, ValuesBeyondHalvesAreRefusedByName) {
  for (const float value : {65536.0F, -1e30F, INFINITY, NAN}) {
    try {
      half_values({1, 1, {value}}, "the input of mlp.up_proj");
      FAIL() << value;
    } catch (const WorkFailed& error) {
      EXPECT_THAT(error.what(), AllOf(HasSubstr("the input of mlp.up_proj"), HasSubstr("not finite in fp16")));
    }
  }
}

TEST(AccuracyStudy, SmoothQuantKeepsTheFunctionOfTheBlock) {
  std::mt19937 random(3);
  const BlockSizes sizes = {.hidden = 64, .inner = 96, .heads = 2};
  const TransformerBlock block = planted_block(random, sizes, {100, 10});
  const Matrix inputs = random_matrix(random, 6, sizes.hidden, 1);
  HostSteps host(block);
  const Matrix exact = run_block(sizes, inputs, host);
  EXPECT_EQ(host.inputs().size(), 7);
  for (const double alpha : {0.0, 0.5, 1.0}) {
    const TransformerBlock smooth = smoothed_block(block, host.inputs(), alpha);
    EXPECT_NE(smooth.weights.at(kInputNorm).values, block.weights.at(kInputNorm).values);
    HostSteps steps(smooth);
    EXPECT_LT(relative_error(run_block(sizes, inputs, steps), exact), 1e-5) << alpha;
  }
}

TEST(AccuracyStudy, OutliersArePlantedInSixChannels) {
  std::mt19937 random(3);
  const TransformerBlock block = planted_block(random, {.hidden = 1024, .inner = 16, .heads = 4}, {100, 10});
  std::vector<std::size_t> channels;
  const std::vector<float>& norm = block.weights.at(kOutputNorm).values;
  for (std::size_t i = 0; i < norm.size(); ++i)
    if (norm[i] != 1) channels.push_back(i);
  EXPECT_EQ(channels, (std::vector<std::size_t>{37, 187, 337, 487, 637, 787}));
}

TEST(AccuracyStudy, ChoicesAreAllCombinations) {
  const Int8Choices all = parse_choices({});
  ASSERT_EQ(all.inputs.size(), 6);
  EXPECT_EQ(text_of(all.inputs[3]), "static mse");
  EXPECT_EQ(text_of(all.inputs[5]), "dynamic token");
  EXPECT_EQ(all.per_channel, (std::vector<bool>{false, true}));
  EXPECT_EQ(all.alphas.size(), 6);
  EXPECT_FALSE(all.alphas.front());
  EXPECT_EQ(parse_choices({.alphas = "none"}).alphas.size(), 1);
}

TEST(AccuracyStudy, WrongChoicesAreRefused) {
  const auto refusal = [](const Int8ChoiceTexts& texts) -> std::string {
    try {
      parse_choices(texts);
    } catch (const BadInput& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_THAT(refusal({.inputs = "dynamic"}), HasSubstr("accepted: static, dynamic_tensor, dynamic_token"));
  EXPECT_THAT(refusal({.methods = "mse,mse"}), HasSubstr("is given twice"));
  EXPECT_THAT(refusal({.weights = "token"}), HasSubstr("accepted: tensor, channel"));
  EXPECT_THAT(refusal({.alphas = "1.5"}), HasSubstr("numbers from 0 to 1, or none"));
  EXPECT_THAT(refusal({.alphas = "0.5,0.50"}), HasSubstr("is given twice"));
}

Json made_up_study() {
  Json study = {{"error", "output of the block"}, {"layers", {"a.q_proj"}}, {"entries", Json::array()}};
  for (const char* weights : {"tensor", "channel"})
    for (const bool smooth : {false, true}) {
      Json entry = {{"activations", "static mse"}, {"weights", weights}, {"alpha", nullptr}};
      if (smooth) entry["alpha"] = 0.5;
      entry["error"] = smooth ? 0.012 : 0.34;
      entry["layers"] = {{"a.q_proj", smooth ? 0.02 : 0.45}};
      study["entries"].push_back(entry);
    }
  return study;
}

TEST(AccuracyStudy, TablesHaveEveryError) {
  const std::string text = accuracy_tables(made_up_study());
  EXPECT_THAT(text, AllOf(HasSubstr("alpha none"), HasSubstr("alpha 0.5"), HasSubstr("34.00%"), HasSubstr("1.20%")));
  EXPECT_THAT(text, AllOf(HasSubstr("q_proj"), HasSubstr("45.00%"), HasSubstr("2.00%")));
}

TEST(AccuracyStudy, PictureHasACurveForEachRow) {
  const std::string svg = accuracy_picture(made_up_study());
  std::size_t curves = 0;
  for (std::size_t at = svg.find("curve"); at != std::string::npos; at = svg.find("curve", at + 1)) ++curves;
  EXPECT_EQ(curves, 2);
  EXPECT_THAT(svg, AllOf(HasSubstr("static mse, weights per channel, alpha 0.5: 1.20%"), HasSubstr("100%")));
}

TEST(KvStudy, FormatsFitTheHead) {
  EXPECT_EQ(kv_formats(128).size(), 2u + 3 * 6 + 4 + 2);
  for (const KvFormat& format : kv_formats(80)) EXPECT_EQ(format.groups, 1) << format.fields();
  EXPECT_EQ(chosen_formats(kv_formats(128), "int4").size(), 5);
  EXPECT_THROW(chosen_formats(kv_formats(128), "int3"), BadInput);
  EXPECT_EQ((KvFormat{"int8_split", "group", 4}).fields(), "kv=int8_split,scales=group,groups=4");
  EXPECT_EQ((KvFormat{"int4_rows", "group", 4}).fields(), "kv=int4_rows,groups=4");
}

TEST(KvStudy, AttentionOfEqualKeysIsTheMeanOfTheValues) {
  KvData data = made_up_data({.tokens = 4, .kv_heads = 1, .heads_per_kv = 1, .head_dim = 16});
  for (std::size_t row = 1; row < 4; ++row) std::copy_n(data.key.row(0), 16, data.key.row(row));
  const Matrix output = attention(data);
  for (std::size_t i = 0; i < 16; ++i) {
    double mean = 0;
    for (std::size_t row = 0; row < 4; ++row) mean += data.value.row(row)[i] / 4.0;
    EXPECT_NEAR(output.values[i], mean, 1e-6);
  }
}

TEST(KvStudy, SimulatedChannelsIgnoreOutliersOfOtherChannels) {
  const KvData data = made_up_data({.tokens = 64, .outliers = 100});
  const KvData eight = simulated({"int8", "channel"}, data);
  for (std::size_t i = 0; i < data.key.values.size(); ++i) {
    const bool is_of_first_head = i / 128 % 2 == 0;
    const bool is_outlier = i % 32 == 16;  // channels 16, 48, 80 and 112 of the first head
    if (is_of_first_head && !is_outlier) {
      EXPECT_NEAR(eight.key.values[i], data.key.values[i], 5.0 / 127);
    }
  }
  const Matrix exact = attention(data);
  const double error = relative_error(attention(eight), exact);
  EXPECT_GT(error, 0);
  EXPECT_LT(error, relative_error(attention(simulated({"int4", "channel"}, data)), exact));
}

TEST(KvStudy, GivenScalesCoverTheTensorOrTheToken) {
  const KvData data = made_up_data({.tokens = 8});
  const std::vector<float> tokens = given_scales({"int8_split", "token"}, data.sizes, data.key);
  const std::vector<float> tensor = given_scales({"int8_split", "tensor"}, data.sizes, data.key);
  ASSERT_EQ(tokens.size(), 8);
  ASSERT_EQ(tensor.size(), 1);
  EXPECT_EQ(tensor[0], *std::max_element(tokens.begin(), tokens.end()));
}

TEST(KvStudy, TableAndPictureNameSimulatedFormats) {
  const Json study = {{"entries",
                       {{{"format", "int8"},
                         {"scales", "token"},
                         {"groups", 1},
                         {"simulated", false},
                         {"bytes_per_token", 516.0},
                         {"error", 0.005},
                         {"worst_error", 0.007},
                         {"microseconds", 12.34}},
                        {{"format", "int4"},
                         {"scales", "channel"},
                         {"groups", nullptr},
                         {"simulated", true},
                         {"bytes_per_token", 260.0},
                         {"error", 0.05},
                         {"worst_error", 0.07},
                         {"microseconds", nullptr}}}}};
  EXPECT_THAT(kv_table(study),
              AllOf(HasSubstr("0.500%"), HasSubstr("12.3"), HasSubstr("simulated"), HasSubstr("516.0")));
  EXPECT_THAT(kv_picture(study), AllOf(HasSubstr("int8 token: 0.500%"), HasSubstr("int4 channel")));
}

}  // namespace
}  // namespace cubit::tools
