// Proves that every mistake of a user ends in exit code 2 and one sentence on standard error that names what was given.
// Standard output stays empty. The tests hold on every machine, with or without a compiler or a GPU.
#include <gtest/gtest.h>

#include "tests/tools/one_sentence.hpp"
#include "tests/tools/program.hpp"

namespace cubit::tools {
namespace {

using test::expect_one_sentence;
using test::Program;
using test::Result;

struct Mistake {
  const char* name;
  std::vector<std::string> arguments;
  std::vector<std::string> parts;  ///< parts of the sentence
};

void PrintTo(const Mistake& mistake, std::ostream* stream) { *stream << mistake.name; }

class BadInput : public ::testing::TestWithParam<Mistake> {};

TEST_P(BadInput, IsOneSentenceAndExitCodeTwo) {
  const Program program;
  expect_one_sentence(program.run(GetParam().arguments), GetParam().parts);
}

std::vector<Mistake> usage_mistakes() {
  return {
      {"NoSubcommand", {}, {"subcommand", "cubit --help"}},
      {"UnknownSubcommand", {"fly"}, {"fly"}},
      {"UnknownOption", {"devices", "--fast"}, {"--fast", "cubit devices --help"}},
      {"MissingDescriptor", {"run"}, {"DESCRIPTOR", "cubit run --help"}},
      {"NothingToCompile", {"compile"}, {"no descriptor"}},
      {"SuggestWithoutSizes",
       {"suggest", "w4a16_gemm", "--arch", "sm_90a", "--multiprocessors", "132"},
       {"no size m", "give m, n and k"}},
      {"SuggestHalfADevice",
       {"suggest", "w4a16_gemm", "--sizes", "m=1,n=8,k=128", "--arch", "sm_90a"},
       {"--arch", "go together", "--multiprocessors 132"}},
      {"SuggestForAMemoryOfNoDevice",
       {"suggest", "w4a16_gemm", "--sizes", "m=1,n=8,k=128", "--memory-bandwidth", "3352"},
       {"--memory-bandwidth", "--arch and --multiprocessors", "give all three"}},
      {"SuggestForANegativeMemory",
       {"suggest", "w4a16_gemm", "--sizes", "m=1,n=8,k=128", "--arch", "sm_90a", "--multiprocessors", "132",
        "--memory-bandwidth", "-1"},
       {"--memory-bandwidth -1", "GB/s", "accepted: 0"}},
      {"SuggestAnUnknownSize",
       {"suggest", "w4a16_gemm", "--sizes", "m=1,rows=8", "--arch", "sm_90a", "--multiprocessors", "132"},
       {"size rows", "accepted: m, n, k"}},
      {"BadPolicy", {"devices", "--compile", "maybe"}, {"--compile"}},
      {"BadJobs", {"compile", "gqa_decode", "--jobs", "0"}, {"--jobs"}},
  };
}

std::vector<Mistake> score_mistakes() {
  return {
      {"ScoreIsNoFile", {"explain", "gqa_decode", "--arch", "sm_80", "--score", "tanh"}, {"\"tanh\"", "name=file"}},
      {"ScoreFileIsMissing",
       {"explain", "gqa_decode", "--arch", "sm_80", "--score", "tanh=/nonexistent/tanh.cuh"},
       {"/nonexistent/tanh.cuh", "cannot be read", "give a file that can be read"}},
      {"ScoreFileIsAFolder", {"compile", "gqa_decode", "--score", "tanh=/"}, {"tanh=/", "cannot be read"}},
      {"ScoreFileIsEndless", {"compile", "gqa_decode", "--score", "tanh=/dev/zero"}, {"over 64 KiB"}},
      {"ScoreFileIsEmpty",
       {"compile", "gqa_decode", "--score", "tanh=/dev/null"},
       {"does not define modify_score", "accepted: code with a function modify_score"}},
      {"ScoreFileIsNoText",
       {"compile", "gqa_decode", "--score", "tanh=/proc/self/cmdline"},
       {"is not text", "give a few lines of device code"}},
      {"ScoreNameIsNone", {"compile", "gqa_decode", "--score", "a b=/dev/null"}, {"a b", "identifier"}},
      {"ScoreThatIsNotGiven",
       {"compile", "gqa_decode:score=tanh", "--arch", "sm_80"},
       {"score=tanh", "no --score gives the code", "--score tanh=FILE"}},
      {"ScoreThatNobodyAdded",
       {"explain", "gqa_decode:score=tanh@0123456789abcdef", "--arch", "sm_80"},
       {"tanh@0123456789abcdef", "--score"}},
      {"CapIsNegative",
       {"run", "gqa_decode:soft_cap=true", "--random", "batch=1,soft_cap=-1"},
       {"soft_cap = -1", "1e-30 to 1e30"}},
      {"CapIsNoNumber",
       {"run", "gqa_decode:soft_cap=true", "--random", "batch=1", "--set", "soft_cap=nan"},
       {"soft_cap = nan"}},
      {"WindowOfNothing",
       {"run", "gqa_decode:window=true", "--random", "batch=1,window=0"},
       {"window = 0", "1 and more"}},
      {"WindowThatIsNotAskedFor", {"run", "gqa_decode", "--random", "batch=1,window=4"}, {"window", "no such size"}},
  };
}

std::vector<Mistake> data_mistakes() {
  return {
      {"MissingList",
       {"compile", "--file", "/nonexistent/list"},
       {"/nonexistent/list", "cannot be read", "; give a file that can be read"}},
      {"ListIsAFolder", {"compile", "--file", "/"}, {"/", "cannot be read"}},
      {"NoData", {"run", "gqa_decode"}, {"--input", "--random"}},
      {"TwoSources",
       {"run", "gqa_decode", "--input", "a", "--random", "batch=1"},
       {"--input and --random", "exclude each other; leave one of the two out"}},
      {"WeightsOfNoFile",
       {"run", "w4a16_gemm", "--input", "a", "--weights", "/no/m.safetensors"},
       {"a: cannot be read"}},
      {"ALayerOfNothing",
       {"run", "w4a16_gemm", "--input", "a", "--layer", "x"},
       {"--layer: names a layer of a checkpoint, but no checkpoint is given; give --weights"}},
      {"WeightsAndMadeUpData",
       {"run", "w4a16_gemm", "--random", "m=1", "--weights", "m", "--layer", "x"},
       {"--weights and --random: exclude each other; give the tensors that the checkpoint does not have with --input"}},
      {"DecompositionOfNoName",
       {"run", "w4a16_gemm", "--random", "m=1", "--set", "decomposition=foo"},
       {"--set decomposition=foo: no decomposition has the name \"foo\"; accepted: data_parallel, split_k, stream_k, "
        "or "
        "a number"}},
      {"BitsOfAnEmptyWord",
       {"convert", "--bits", "", "--from", "gptq", "--to", "gptq_v2", "--input", "a", "--output", "b"},
       {"--bits: is not a valid number of bits; accepted: 4, 8"}},
      {"DenseWeightsOfNoFile",
       {"run", "w4_quantize", "--weights", "/no/such.safetensors", "--layer", "x"},
       {"/no/such.safetensors: cannot be read"}},
      {"RandomIsNoNumber",
       {"run", "gqa_decode", "--random", "batch=two"},
       {"\"two\" is not a number; give NAME=NUMBER"}},
      {"RandomOverflows",
       {"run", "gqa_decode", "--random", "batch=1e999"},
       {"the number is too large or too small", "; accepted: 0, and magnitudes from 1e-300 to 1e300"}},
      {"SetWithoutValue",
       {"run", "gqa_decode", "--random", "batch=1", "--set", "x"},
       {"--set \"x\"", "name=number; give NAME=NUMBER,NAME=NUMBER"}},
      {"SetTwice",
       {"run", "gqa_decode", "--random", "batch=1", "--set", "x=1", "--set", "x=2"},
       {"--set \"x=2\": is given twice; leave one of the two out"}},
      {"SeedIsNoInteger",
       {"run", "gqa_decode", "--random", "seed=-1"},
       {"a seed is an integer", "; give an integer, for example seed=7"}},
      {"SizeIsInfinite", {"run", "gqa_decode", "--random", "batch=inf"}, {"must be finite; give NAME=NUMBER"}},
      {"SvgFolderIsAFile",
       {"explain", "gqa_decode", "--arch", "sm_80", "--cache-dir", "", "--svg", "/dev/null"},
       {"--svg /dev/null: cannot be made a folder", "; give a path that can be written"}},
      {"CacheWithoutVerb", {"cache"}, {"subcommand", "cubit cache --help"}},
      {"UnknownCacheVerb", {"cache", "nosuch"}, {"nosuch: is not a subcommand of cubit cache", "cubit cache --help"}},
      {"UnknownOperatorHelp", {"operators", "gemm"}, {"\"gemm\"", "is not an operator"}},
  };
}

std::vector<Mistake> descriptor_mistakes() {
  return {
      {"UnknownOperator", {"compile", "no_such_operator"}, {"no_such_operator", "gqa_decode"}},
      {"UnknownField", {"compile", "gqa_decode:colour=red"}, {"colour"}},
      {"HeadDim100", {"compile", "gqa_decode:head_dim=100"}, {"head_dim", "100", "64", "128"}},
      {"Groups3", {"compile", "gqa_decode:kv=int4_rows,groups=3"}, {"groups", "3"}},
      {"QueryTokens17", {"compile", "gqa_decode:query_tokens=17"}, {"query_tokens", "17", "1 to 16"}},
      {"MaskOfOneQueryToken", {"compile", "gqa_decode:mask=tree"}, {"mask", "query_tokens=2 to 16"}},
      {"PackedHeadDim80", {"compile", "gqa_decode:head_dim=80,kv=int4_rows"}, {"int4_rows", "64, 96, 128"}},
      {"NumberOverflows",
       {"compile", "gqa_decode:head_dim=99999999999999999999"},
       {"head_dim", "99999999999999999999"}},
      {"FieldTwice", {"compile", "gqa_decode:head_dim=64,head_dim=64"}, {"head_dim"}},
      {"FieldWithoutValue", {"compile", "gqa_decode:head_dim"}, {"head_dim"}},
      {"EmptyDescriptor", {"compile", ""}, {"gqa_decode"}},
      {"GroupsOfBf16", {"compile", "gqa_decode:groups=4"}, {"groups"}},
      {"UnknownArchitecture", {"compile", "gqa_decode", "--arch", "sm_42"}, {"sm_42", "sm_80"}},
      {"UnknownArchitectureInRun",
       {"run", "gqa_decode", "--random", "batch=1,context=16,kv_heads=1", "--arch", "sm_42"},
       {"sm_42"}},
      {"UnknownArchitectureInExplain", {"explain", "gqa_decode", "--arch", "sm_42"}, {"sm_42"}},
      {"TwoArchitecturesInExplain",
       {"explain", "gqa_decode", "--arch", "sm_80,sm_86"},
       {"one architecture; give one, as --arch sm_90a"}},
      {"EmptyArchitecture",
       {"compile", "gqa_decode", "--arch", "sm_80,"},
       {"--arch", "empty; give one part or more, separated by single commas"}},
      {"NoMmaSync", {"compile", "gqa_decode", "--arch", "sm_75"}, {"sm_75"}},
  };
}

std::vector<Mistake> launch_mistakes() {
  return {
      {"ScaleIsNaN",
       {"run", "gqa_decode", "--random", "batch=1,context=16,kv_heads=1", "--set", "softmax_scale=nan"},
       {"softmax_scale", "nan"}},
      {"ScaleIsInfinite",
       {"run", "gqa_decode", "--random", "batch=1,context=16,kv_heads=1", "--set", "softmax_scale=inf"},
       {"softmax_scale", "inf"}},
      {"ScaleOverflowsFloat",
       {"run", "gqa_decode", "--random", "batch=1,context=16,kv_heads=1", "--set", "softmax_scale=1e300"},
       {"softmax_scale", "1e+300"}},
      {"ScaleOverflowsInTheKernel",
       {"run", "gqa_decode", "--random", "batch=1,context=16,kv_heads=1", "--set", "softmax_scale=3e38"},
       {"softmax_scale", "3e+38"}},
      {"UnknownSize",
       {"run", "gqa_decode", "--random", "batch=1,weight=3"},
       {"size weight", "accepted: batch, context", ", splits, seed\n"}},
      {"UnknownNumber",
       {"run", "gqa_decode", "--random", "batch=1", "--set", "weight=3"},
       {"size weight", "accepted: batch, context", ", splits\n"}},
      {"NegativeSize", {"run", "gqa_decode", "--random", "batch=-1,context=16,kv_heads=1"}, {"batch", "-1"}},
      {"FractionalSize", {"run", "gqa_decode", "--random", "batch=1.5,context=16,kv_heads=1"}, {"batch", "1.5"}},
      {"HugeSize", {"run", "gqa_decode", "--random", "batch=1e30,context=16,kv_heads=1"}, {"batch"}},
      {"HugeProduct", {"run", "gqa_decode", "--random", "batch=1000000,context=1000000,kv_heads=1"}, {"limited to"}},
      {"OutputFolderMissing",
       {"run", "gqa_decode", "--random", "batch=1,context=16,kv_heads=1", "--output", "/nonexistent/out"},
       {"/nonexistent/out", "cannot be written"}},
      {"OutputIsADevice",
       {"run", "gqa_decode", "--random", "batch=1,context=16,kv_heads=1", "--output", "/dev/null"},
       {"/dev/null", "not a regular file"}},
      {"OutputHasNoName",
       {"run", "gqa_decode", "--random", "batch=1,context=16,kv_heads=1", "--output", ""},
       {"the name of an output: is empty", "give the name of a file to write"}},
      {"InputHasNoName", {"run", "gqa_decode", "--input", ""}, {"\"\": cannot be read"}},
      {"DescriptorFileHasNoName", {"compile", "--file", "", "--arch", "sm_80"}, {"\"\": cannot be read"}},
      {"OperatorHasNoName", {"operators", ""}, {"\"\": is not an operator"}},
      {"TheCpuDeviceIsNotTimed",
       {"run", "gqa_decode", "--random", "batch=1,context=16,kv_heads=1", "--device", "cpu:sm_80", "--bench"},
       {"the CPU device", "cannot be timed"}},
      // Making data may take minutes, so the check comes first.
      {"OutputIsReportedBeforeSizes",
       {"run", "gqa_decode", "--random", "weight=3", "--output", "/nonexistent/out"},
       {"/nonexistent/out", "cannot be written"}},
      {"DescriptorIsReportedBeforeTheOutput",
       {"run", "gqa_decode:speed=9", "--random", "batch=1", "--output", "/nonexistent/out"},
       {"no field speed"}},
  };
}

INSTANTIATE_TEST_SUITE_P(Usage, BadInput, ::testing::ValuesIn(usage_mistakes()),
                         [](const auto& test) { return test.param.name; });
INSTANTIATE_TEST_SUITE_P(Data, BadInput, ::testing::ValuesIn(data_mistakes()),
                         [](const auto& test) { return test.param.name; });
INSTANTIATE_TEST_SUITE_P(Score, BadInput, ::testing::ValuesIn(score_mistakes()),
                         [](const auto& test) { return test.param.name; });
INSTANTIATE_TEST_SUITE_P(Descriptor, BadInput, ::testing::ValuesIn(descriptor_mistakes()),
                         [](const auto& test) { return test.param.name; });
INSTANTIATE_TEST_SUITE_P(Launch, BadInput, ::testing::ValuesIn(launch_mistakes()),
                         [](const auto& test) { return test.param.name; });

TEST(BadInput, ScoreThatNobodyAsksFor) {
  const Program program;
  const std::string score =
      program.folder().write("score.cuh", "struct Score { float modify_score(float s) { return s; } };");
  for (const std::string command : {"explain", "compile", "run", "bench"}) {
    std::vector<std::string> words = {command, "gqa_decode", "--score", "same=" + score};
    if (command == "run" || command == "bench") words.insert(words.end(), {"--random", "batch=1"});
    expect_one_sentence(program.run(words), {"--score", "same", "no descriptor has score=same", "leave it out"});
  }
}

TEST(BadDescriptor, ALongOneIsRefusedInAShortSentence) {
  const Program program;
  const std::string descriptor = "gqa_decode:" + std::string(100'000, 'x');
  for (const char* verb : {"compile", "explain", "run", "bench"}) {
    const Result result = program.run({verb, descriptor});
    expect_one_sentence(result, {"100011 bytes is over the limit of 4096; leave out fields at their default"});
    EXPECT_LT(result.err.size(), 400u);
  }
}

TEST(BadDescriptor, ControlCharactersAreEscaped) {
  const Program program;
  const std::string hostile = "a\x1b[2Jb\nc\x07";
  for (const std::vector<std::string>& arguments : std::vector<std::vector<std::string>>{
           {"compile", hostile},
           {"compile", "gqa_decode:" + hostile + "=1"},
           {"compile", "--file", hostile},
           {"run", "gqa_decode", "--input", hostile},
           {"run", "gqa_decode", "--random", hostile + "=1,batch=1"},
           {"cache", "list", "--cache-dir", program.folder().write("f", "") + "/" + hostile},
           {hostile},
           {"devices", hostile}}) {
    const Result result = program.run(arguments);
    expect_one_sentence(result, {});
    EXPECT_EQ(result.err.find('\x1b'), std::string::npos) << arguments.back();
    EXPECT_EQ(result.err.find('\x07'), std::string::npos) << arguments.back();
  }
}

TEST(BadList, NamesTheLineAndCompilesNothing) {
  const Program program;
  const auto list = program.folder().write("list.txt", "gqa_decode\n# fine so far\ngqa_decode:head_dim=100\n");
  const Result result = program.run({"compile", "--file", list, "--arch", "sm_80"});
  expect_one_sentence(result, {"list.txt:3: ", "100"});
  EXPECT_EQ(program.run({"cache", "list", "--json"}).json().at("entries").size(), 0u);
}

TEST(BadList, StandardInputToo) {
  const Program program;
  expect_one_sentence(program.run({"compile", "--file", "-", "--arch", "sm_80"}, "gqa_decode:kv=bf17\n"),
                      {"standard input:1: ", "bf17"});
}

TEST(BadCacheFolder, AFileIsNoFolderToList) {
  const Program program;
  const std::string file = program.folder().write("file", "x");
  for (const char* verb : {"list", "verify", "clear"}) {
    expect_one_sentence(program.run({"cache", verb, "--cache-dir", file}), {file});
  }
  EXPECT_EQ(test::read_file(file), "x");
}

TEST(BadCacheFolder, NoFolderIsNothingToList) {
  const Program program;
  expect_one_sentence(program.run({"cache", "list", "--cache-dir", ""}), {"no cache folder"});
}

}  // namespace
}  // namespace cubit::tools
