// Proves that a case whose files cannot be right ends in exit code 2 and one sentence on standard error: tensors that
// do not fit the descriptor, damaged files, and outputs that would replace an input.
#include <gtest/gtest.h>

#include <filesystem>

#include "files/safetensors/safetensors.hpp"
#include "tests/tools/one_sentence.hpp"
#include "tests/tools/program.hpp"

namespace cubit::tools {
namespace {

using test::expect_one_sentence;
using test::Program;
using test::Result;
using test::safetensors_bytes;

constexpr const char* kInt4 = "gqa_decode:heads_per_kv=8,kv=int4_rows,groups=4";

/// A tensor of zeros.
struct Zeros {
  std::string name;
  std::string type;
  std::vector<std::int64_t> shape;
  std::string data;
};

Zeros zeros(std::string name, std::string type, std::vector<std::int64_t> shape) {
  std::size_t bytes = type == "U8" ? 1 : type == "I32" ? 4 : 2;
  for (const std::int64_t extent : shape) bytes *= static_cast<std::size_t>(extent);
  return {std::move(name), std::move(type), std::move(shape), std::string(bytes, '\0')};
}

std::string file_of(const std::vector<Zeros>& tensors) {
  std::vector<TensorView> views;
  std::string data;
  for (const Zeros& tensor : tensors) {
    views.push_back({tensor.name, tensor.type, tensor.shape, test::as_bytes(tensor.data)});
    data += tensor.data;
  }
  return safetensors_header(views) + data;
}

Result run_file(const std::string& descriptor, const std::string& content) {
  const Program program;
  const std::string path = program.folder().write("case.safetensors", content);
  return program.run({"run", descriptor, "--input", path});
}

/// A case of the shipped shape: one sequence, 8 query heads on one KV head, 16 tokens, and rows of 64 bytes with four
/// (scale, zero) pairs.
std::vector<Zeros> int4_case() {
  return {zeros("query", "BF16", {1, 8, 128}), zeros("key", "U8", {1, 16, 1, 80}),
          zeros("value", "U8", {1, 16, 1, 80})};
}

TEST(BadCase, TheCaseThatTheOthersChangeIsAccepted) {
  const Result result = run_file(kInt4, file_of(int4_case()));
  EXPECT_NE(result.exit_code, 2) << result.err;
}

TEST(BadCase, OutputThatIsTheInput) {
  const Program program;
  const std::string path = program.folder().write("case.safetensors", file_of(int4_case()));
  const std::string link = path + ".link";
  std::filesystem::create_symlink(path, link);
  for (const std::string& output : {path, link}) {
    expect_one_sentence(program.run({"run", kInt4, "--input", path, "--output", output}),
                        {"--output", output, "is the input", "another file"});
  }
}

/// Writes a checkpoint of a layer "a" in two shards, and activations for the layer. Returns the paths of the three
/// files of the checkpoint.
std::vector<std::string> write_shards(const test::TemporaryFolder& folder) {
  folder.write("x.safetensors", file_of({zeros("activations", "F16", {1, 128})}));
  return {folder.write("m.safetensors.index.json",
                       R"({"weight_map":{"a.qweight":"1.safetensors","a.qzeros":"1.safetensors",)"
                       R"("a.scales":"1.safetensors","b.qweight":"2.safetensors"}})"),
          folder.write("1.safetensors", file_of({zeros("a.qweight", "I32", {16, 8}), zeros("a.qzeros", "I32", {1, 1}),
                                                 zeros("a.scales", "F16", {1, 8})})),
          folder.write("2.safetensors", file_of({zeros("b.qweight", "I32", {16, 8})}))};
}

// Replacing the shard of another layer does as much harm as replacing the shard of this layer.
TEST(BadCase, OutputThatIsAFileOfTheCheckpoint) {
  const Program program;
  const test::TemporaryFolder model;
  const std::vector<std::string> files = write_shards(model);
  const std::string same =
      model.path("../" + std::filesystem::path(model.path("")).parent_path().filename().string() + "/1.safetensors");
  const std::string soft = program.folder().path("soft");
  const std::string hard = model.path("hard");
  std::filesystem::create_symlink(files[1], soft);
  std::filesystem::create_hard_link(files[1], hard);
  const std::string before = test::read_file(files[1]);
  for (const std::string& weights : {model.path(""), files[0]}) {
    std::vector<std::string> words = {
        "run", "w4a16_gemm", "--input", model.path("x.safetensors"), "--weights", weights, "--layer", "a", "--output"};
    for (const std::string& output : {files[0], files[1], files[2], same, soft, hard, model.path("x.safetensors")}) {
      words.push_back(output);
      expect_one_sentence(program.run(words), {"--output", "is the input", "give the name of another file"});
      words.pop_back();
    }
  }
  EXPECT_EQ(test::read_file(files[1]), before);
}

TEST(BadCase, BenchFilesThatAreInputs) {
  const Program program;
  const std::string input = program.folder().write("case.safetensors", file_of(int4_case()));
  const std::string score = program.folder().write("score.cuh", "float modify_score(float s) { return s; }");
  const std::string descriptor = std::string(kInt4) + ",score=same";
  for (const char* option : {"--json", "--svg"}) {
    for (const std::string& output : {input, score}) {
      expect_one_sentence(
          program.run({"bench", descriptor, "--input", input, "--score", "same=" + score, option, output}),
          {option, "is the input", "give the name of another file"});
    }
  }
  EXPECT_EQ(test::read_file(input), file_of(int4_case()));
}

TEST(BadCase, BenchFilesThatAreOne) {
  const Program program;
  const std::string folder = program.folder().path("");
  expect_one_sentence(
      program.run({"bench", "gqa_decode", "--dry-run", "--json", folder + "results", "--svg", folder + "./results"}),
      {"--svg", "is the file of --json", "give the name of another file"});
  EXPECT_FALSE(std::filesystem::exists(folder + "results"));
}

TEST(BadCase, RowSizeThatDoesNotMatch) {
  auto tensors = int4_case();
  tensors[1] = zeros("key", "U8", {1, 16, 1, 72});
  expect_one_sentence(run_file(kInt4, file_of(tensors)), {"key", "72", "80"});
}

TEST(BadCase, QueryHeadsThatAreNoMultipleOfKvHeads) {
  auto tensors = int4_case();
  tensors[0] = zeros("query", "BF16", {1, 7, 128});
  expect_one_sentence(run_file(kInt4, file_of(tensors)), {"query", "7"});
}

TEST(BadCase, LengthBeyondTheCache) {
  auto tensors = int4_case();
  tensors.push_back(zeros("lengths", "I32", {1}));
  tensors.back().data[0] = 17;
  expect_one_sentence(run_file(kInt4, file_of(tensors)), {"lengths", "17", "16"});
}

TEST(BadCase, NegativeLength) {
  auto tensors = int4_case();
  tensors.push_back(zeros("lengths", "I32", {1}));
  tensors.back().data = "\xff\xff\xff\xff";
  expect_one_sentence(run_file(kInt4, file_of(tensors)), {"lengths", "-1"});
}

TEST(BadCase, MissingTensor) {
  auto tensors = int4_case();
  tensors.pop_back();
  expect_one_sentence(run_file(kInt4, file_of(tensors)), {"value"});
}

TEST(BadCase, UnknownTensor) {
  auto tensors = int4_case();
  tensors.push_back(zeros("mask", "U8", {1}));
  expect_one_sentence(run_file(kInt4, file_of(tensors)), {"mask"});
}

TEST(BadCase, WrongType) {
  auto tensors = int4_case();
  tensors[0] = zeros("query", "F16", {1, 8, 128});
  expect_one_sentence(run_file(kInt4, file_of(tensors)), {"query", "F16", "BF16"});
}

TEST(BadCase, TruncatedFile) {
  const std::string file = file_of(int4_case());
  for (const std::size_t length : {std::size_t{4}, std::size_t{40}, file.size() - 1}) {
    expect_one_sentence(run_file(kInt4, file.substr(0, length)), {"case.safetensors"});
  }
}

TEST(BadCase, HostileFile) {
  expect_one_sentence(run_file(kInt4, std::string(8, '\xff')), {"case.safetensors", "over the limit"});
  expect_one_sentence(run_file(kInt4, safetensors_bytes("{\"a\":" + std::string(100'000, '['), "")),
                      {"must be an object"});
  expect_one_sentence(run_file(kInt4, "just some text, not tensors at all"), {"is this a safetensors file?"});
}

TEST(BadCase, MissingFile) {
  const Program program;
  expect_one_sentence(program.run({"run", kInt4, "--input", program.folder().path("missing")}),
                      {"missing", "cannot be read"});
}

}  // namespace
}  // namespace cubit::tools
