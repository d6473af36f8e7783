// Proves that `cubit study accuracy` and `cubit study kv` run cubit's kernels on the CPU device, that their errors are
// those of the formats, and that bad input is one sentence. parts_test.cpp proves the parts on the host.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <optional>
#include <span>

#include "tests/tools/program.hpp"

namespace cubit::tools {
namespace {

using test::Program;
using test::Result;
using ::testing::AllOf;
using ::testing::HasSubstr;

bool has_kernels(const Program& program, const Result& result) {
  return program.has_compiler() && result.err.find("libcubit_cpu") == std::string::npos;
}

const nlohmann::json& entry_of(const nlohmann::json& study, const std::string& activations, bool smooth) {
  for (const nlohmann::json& entry : study.at("entries"))
    if (entry.at("activations") == activations && entry.at("alpha").is_null() != smooth) return entry;
  throw std::runtime_error("the study has no entry " + activations);
}

TEST(StudyAccuracy, KernelsOnTheCpuDeviceShowWhatSmoothQuantGains) {
  const Program program;
  const std::string json = program.folder().path("accuracy.json");
  const std::string picture = program.folder().path("accuracy.svg");
  const Result result =
      program.run({"study",     "accuracy",  "--hidden", "64",        "--inner",  "64",       "--heads",
                   "2",         "--tokens",  "4",        "--methods", "minmax",   "--inputs", "static,dynamic_token",
                   "--weights", "channel",   "--alphas", "0.5",       "--device", "cpu",      "--json",
                   json,        "--picture", picture});
  if (!has_kernels(program, result)) GTEST_SKIP() << result.err;
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, AllOf(HasSubstr("static minmax"), HasSubstr("alpha 0.5"), HasSubstr("down_proj")));
  EXPECT_THAT(test::read_file(picture), HasSubstr("dynamic token, weights per channel"));
  const auto study = nlohmann::json::parse(test::read_file(json));
  EXPECT_EQ(study.at("arch"), "cpu:sm_80");
  EXPECT_NE(study.at("compiler"), "");
  EXPECT_TRUE(study.at("driver").is_number());
  ASSERT_EQ(study.at("entries").size(), 4);
  for (const auto& entry : study.at("entries")) {
    EXPECT_GT(entry.at("error"), 1e-4);  // INT8 is never exact
    EXPECT_EQ(entry.at("layers").size(), 7);
  }
  // In a layer that reads a norm, an outlier channel takes the codes of all others; SmoothQuant gives them back.
  const std::string layer = "model.layers.0.mlp.up_proj";
  const double before = entry_of(study, "static minmax", false).at("layers").at(layer);
  const double after = entry_of(study, "static minmax", true).at("layers").at(layer);
  EXPECT_LT(after, before / 3);
  EXPECT_LT(entry_of(study, "static minmax", true).at("error"), entry_of(study, "static minmax", false).at("error"));
  EXPECT_LT(entry_of(study, "dynamic token", true).at("error"), 0.05);
}

/// The block's error with SmoothQuant as a share of the error without, through the kernels: one static scale per
/// tensor from 64 tokens, alpha 0.5, and the output of 8 other tokens. Nothing if there are no kernels.
std::optional<double> smoothed_share(const std::string& norm, const std::string& weight) {
  const Program program;
  const Result result = program.run({"study",
                                     "accuracy",
                                     "--hidden",
                                     "1024",
                                     "--inner",
                                     "512",
                                     "--heads",
                                     "16",
                                     "--tokens",
                                     "8",
                                     "--calibration-tokens",
                                     "64",
                                     "--methods",
                                     "minmax",
                                     "--inputs",
                                     "static",
                                     "--weights",
                                     "tensor",
                                     "--alphas",
                                     "0.5",
                                     "--outlier-norm",
                                     norm,
                                     "--outlier-weight",
                                     weight,
                                     "--device",
                                     "cpu",
                                     "--json"});
  if (!has_kernels(program, result)) return std::nullopt;
  EXPECT_EQ(result.exit_code, 0) << result.err;
  const nlohmann::json study = result.json();
  const nlohmann::json& without = entry_of(study, "static minmax", false);
  const nlohmann::json& with = entry_of(study, "static minmax", true);
  EXPECT_EQ(without.at("layers").size(), 7);
  for (const auto& [layer, error] : without.at("layers").items()) {
    const bool reads_norm = !layer.ends_with("o_proj") && !layer.ends_with("down_proj");
    EXPECT_LT(with.at("layers").at(layer), reads_norm ? error.get<double>() / 3 : 0.06) << layer;
  }
  return with.at("error").get<double>() / without.at("error").get<double>();
}

TEST(StudyAccuracy, SmoothQuantCutsTheErrorOfLargeOutliersToATenth) {
  const auto share = smoothed_share("100", "10");
  if (!share) GTEST_SKIP() << "no kernels on this machine";
  EXPECT_LE(*share, 0.1);
}

TEST(StudyAccuracy, SmoothQuantCutsTheErrorOfSmallerOutliersToThreeTenths) {
  const auto share = smoothed_share("20", "4.4721359549995794");  // the square root of 20
  if (!share) GTEST_SKIP() << "no kernels on this machine";
  EXPECT_LE(*share, 0.3);
}

/// A safetensors file of fp32 tensors of one shape.
std::string tensors_file(const std::vector<std::string>& names, const std::vector<std::int64_t>& shape,
                         const std::vector<float>& values) {
  nlohmann::ordered_json header;
  std::string data;
  for (const std::string& name : names) {
    header[name] = {
        {"dtype", "F32"}, {"shape", shape}, {"data_offsets", {data.size(), data.size() + 4 * values.size()}}};
    data.append(reinterpret_cast<const char*>(values.data()), 4 * values.size());
  }
  return test::safetensors_bytes(header.dump(), data);
}

std::vector<float> waves(std::size_t count, std::size_t channels, float outlier) {
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i)
    values[i] = std::sin(0.37F * static_cast<float>(i * i % 1009)) * (i % channels == 3 ? outlier : 1);
  return values;
}

TEST(StudyAccuracy, RecordedLayersOfACheckpointAreMeasured) {
  const Program program;
  const test::TemporaryFolder& folder = program.folder();
  const std::string layer = "model.layers.0.mlp.up_proj";
  std::filesystem::create_directory(folder.path("model"));
  folder.write("model/model.safetensors", tensors_file({layer + ".weight", "model.layers.0.mlp.gate_proj.weight"},
                                                       {32, 32}, waves(1024, 32, 0.1F)));
  const std::string batch = folder.write("batch.safetensors", tensors_file({layer}, {8, 32}, waves(256, 32, 50)));
  const std::vector<std::string> arguments = {
      "study",    "accuracy",  "--checkpoint", folder.path("model"), "--activations",        batch,       "--alphas",
      "none",     "--methods", "minmax",       "--inputs",           "static,dynamic_token", "--weights", "channel",
      "--device", "cpu",       "--json"};
  const Result result = program.run(arguments);
  if (!has_kernels(program, result)) GTEST_SKIP() << result.err;
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const nlohmann::json study = result.json();
  ASSERT_EQ(study.at("layers"), nlohmann::json({layer}));
  for (const auto& entry : study.at("entries")) {
    EXPECT_GT(entry.at("error"), 1e-4);
    EXPECT_LT(entry.at("error"), 0.2);
    EXPECT_EQ(entry.at("error"), entry.at("layers").at(layer));
  }
  std::vector<float> broken = waves(256, 32, 50);
  broken[77] = NAN;
  folder.write("batch.safetensors", tensors_file({layer}, {8, 32}, broken));
  const Result refused = program.run(arguments);
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_THAT(refused.err,
              AllOf(HasSubstr(layer + ", 1 values: are not finite"), HasSubstr("record activations again")));
  folder.write("batch.safetensors", tensors_file({"lm_head"}, {8, 32}, waves(256, 32, 1)));
  EXPECT_THAT(program.run(arguments).err,
              HasSubstr("layer lm_head: has recorded inputs, but the checkpoint has no weight"));
  folder.write("batch.safetensors", tensors_file({layer}, {16, 16}, waves(256, 16, 1)));
  EXPECT_THAT(program.run(arguments).err, HasSubstr("do not fit its weight of 32 input channels"));
}

TEST(StudyKv, KernelsOnTheCpuDeviceShowWhatFormatsLose) {
  const Program program;
  const std::string json = program.folder().path("kv.json");
  const std::string picture = program.folder().path("kv.svg");
  const Result result =
      program.run({"study", "kv", "--tokens", "32", "--kv-heads", "1", "--heads-per-kv", "1", "--head-dim", "64",
                   "--formats", "fp16,int8,int4", "--device", "cpu", "--json", json, "--picture", picture});
  if (!has_kernels(program, result)) GTEST_SKIP() << result.err;
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, AllOf(HasSubstr("4 groups"), HasSubstr("simulated"), HasSubstr("bytes/token")));
  EXPECT_THAT(test::read_file(picture), HasSubstr("int8 token"));
  const auto study = nlohmann::json::parse(test::read_file(json));
  const auto number = [&](const std::string& format, const std::string& scales, int groups, const char* member) {
    for (const auto& entry : study.at("entries"))
      if (entry.at("format") == format && entry.at("scales") == scales &&
          (entry.at("groups").is_null() || entry.at("groups") == groups))
        return entry.at(member).get<double>();
    throw std::runtime_error("the study has no entry " + format + " " + scales);
  };
  EXPECT_EQ(number("fp16", "", 1, "bytes_per_token"), 256);
  EXPECT_EQ(number("int8", "head", 1, "bytes_per_token"), 128 + 8);
  EXPECT_EQ(number("int8", "token", 1, "bytes_per_token"), 128 + 8);
  EXPECT_EQ(number("int4", "group", 4, "bytes_per_token"), 64 + 2 * 4 * 4);
  EXPECT_LT(number("fp16", "", 1, "error"), 1e-3);
  EXPECT_LT(number("int8", "group", 4, "error"), number("int8", "tensor", 1, "error"));
  EXPECT_LT(number("int8", "tensor", 1, "error"), number("int4", "group", 4, "error"));
  EXPECT_LT(number("int4", "group", 4, "error"), 0.8);
}

TEST(StudyKv, ReadsRecordedKeysAndValues) {
  const Program program;
  const std::string path = program.folder().path("kv.safetensors");
  const std::vector<std::string> arguments = {"study", "kv",       "--input", path,    "--formats",
                                              "fp16",  "--device", "cpu",     "--json"};
  program.folder().write("kv.safetensors", tensors_file({"query", "key", "value"}, {1, 2, 64}, waves(128, 64, 1)));
  EXPECT_THAT(program.run(arguments).err, HasSubstr("tensor key with 3 dimensions: has another number of dimensions"));
  program.folder().write("kv.safetensors", tensors_file({"key", "value"}, {1, 2, 1, 64}, waves(128, 64, 1)));
  EXPECT_THAT(program.run(arguments).err, HasSubstr("has no tensor query"));
}

/// `arguments` with `output` name one of the study's input files as an output. Nothing may change.
void expect_inputs_kept(const Program& program, std::vector<std::string> arguments, const std::string& option,
                        const std::string& output) {
  const std::string before = test::read_file(output);
  arguments.insert(arguments.end(), {option, output});
  const Result result = program.run(arguments);
  EXPECT_EQ(result.exit_code, 2) << result.err;
  EXPECT_THAT(result.err, AllOf(HasSubstr(option), HasSubstr(output)));
  EXPECT_EQ(test::read_file(output), before);
}

TEST(StudyAccuracy, OutputsNeverReplaceInputs) {
  const Program program;
  const test::TemporaryFolder& folder = program.folder();
  const std::string layer = "model.layers.0.mlp.up_proj";
  std::filesystem::create_directory(folder.path("model"));
  const std::string weights =
      folder.write("model/model.safetensors", tensors_file({layer + ".weight"}, {32, 32}, waves(1024, 32, 1)));
  const std::string batch = folder.write("batch.safetensors", tensors_file({layer}, {8, 32}, waves(256, 32, 50)));
  const std::string recorded =
      folder.write("kv.safetensors", tensors_file({"query", "key", "value"}, {1, 2, 1, 64}, waves(128, 64, 1)));
  const std::vector<std::string> accuracy = {"study",         "accuracy", "--checkpoint", folder.path("model"),
                                             "--activations", batch};
  for (const std::string option : {"--json", "--picture"}) {
    expect_inputs_kept(program, accuracy, option, weights);
    expect_inputs_kept(program, accuracy, option, batch);
    expect_inputs_kept(program, {"study", "kv", "--input", recorded}, option, recorded);
  }
}

TEST(StudyAccuracy, BadInputIsOneSentence) {
  const Program program;
  struct Case {
    std::vector<std::string> arguments;
    std::string sentence;
  };
  const Case cases[] = {
      {{"accuracy", "--hidden", "100"}, "is no size of the block; accepted: multiples of 16 from 64 to 32768"},
      {{"accuracy", "--heads", "3"}, "does not divide the 256 channels of --hidden"},
      {{"accuracy", "--tokens", "0"}, "is no size of the block; accepted: from 1 to 4096"},
      {{"accuracy", "--outlier-norm", "nan"}, "is no factor of outlier channels"},
      {{"accuracy", "--methods", "best"}, "is not known; accepted: minmax, percentile, entropy, mse"},
      {{"accuracy", "--alphas", "2"}, "is not a share"},
      {{"accuracy", "--checkpoint", "model"}, "belong together; give both, or none of the two"},
      {{"accuracy", "--json", "/no/such/folder/x.json"}, "/no/such/folder"},
      {{"kv", "--tokens", "0"}, "is no size of a KV cache"},
      {{"kv", "--outliers", "0.5"}, "is no factor of outlier channels"},
      {{"kv", "--formats", "int3", "--device", "cpu"}, "is no format of a KV cache; accepted: fp16, bf16, int8"},
      {{"kv", "--input", "/no/such/file.safetensors"}, "/no/such/file.safetensors"},
      {{"kv", "--arch", "sm_1"}, "sm_1"},
  };
  for (const Case& one : cases) {
    std::vector<std::string> arguments = {"study"};
    arguments.insert(arguments.end(), one.arguments.begin(), one.arguments.end());
    const Result result = program.run(arguments);
    EXPECT_EQ(result.exit_code, 2) << one.sentence;
    EXPECT_THAT(result.err, HasSubstr(one.sentence));
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
  }
}

}  // namespace
}  // namespace cubit::tools
