// Proves what the subcommands do with good input. Tests that need NVRTC skip without NVRTC. Tests whose result depends
// on a GPU first ask the program for one; tests of the GPU itself are in tests/gpu.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "tests/tools/program.hpp"

namespace cubit::tools {
namespace {

using test::Program;
using test::Result;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr const char* kSmall = "stream_read";
constexpr const char* kRandom = "bytes=4096";

bool has_device(const Program& program) { return !program.run({"devices", "--json"}).json().at("devices").empty(); }

#define SKIP_WITHOUT_COMPILER(program) \
  if (!program.has_compiler()) GTEST_SKIP() << "no NVRTC on this machine"

TEST(Help, EverySubcommandTeachesByExample) {
  const Program program;
  EXPECT_THAT(program.run({"--help"}).out, AllOf(HasSubstr("operator:field=value"), HasSubstr("Exit codes")));
  for (const char* name : {"compile", "run", "bench", "study", "explain", "explain-miss", "suggest", "bundle", "cache",
                           "convert", "devices", "operators"}) {
    const Result result = program.run({name, "--help"});
    EXPECT_EQ(result.exit_code, 0);
    EXPECT_THAT(result.out, AllOf(HasSubstr("Examples:"), HasSubstr(std::string("cubit ") + name))) << name;
    EXPECT_EQ(result.err, "");
  }
}

TEST(Help, VersionNamesTheCommit) {
  const Result result = Program().run({"--version"});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(result.out, ::testing::MatchesRegex("cubit [0-9]+\\.[0-9]+\\.[0-9]+ \\(.+\\)\n"));
}

TEST(Operators, ListsFieldsTensorsAndSizes) {
  const Program program;
  EXPECT_THAT(program.run({"operators"}).out,
              AllOf(HasSubstr("gqa_decode"), HasSubstr("heads_per_kv"), HasSubstr("stream_read")));
  EXPECT_THAT(program.run({"operators", "merge"}).out, HasSubstr(", seed (default 1)\n"));
  const auto one = program.run({"operators", "gqa_decode", "--json"}).json();
  ASSERT_EQ(one.size(), 1u);
  EXPECT_EQ(one[0].at("name"), "gqa_decode");
}

TEST(Operators, PrintsMarkdownTables) {
  const Program program;
  const std::string markdown = program.run({"operators", "kv_append", "--markdown"}).out;
  EXPECT_THAT(markdown, HasSubstr("| `rotary` | none | none, interleaved, half_split |"));
  EXPECT_THAT(markdown, HasSubstr("| `cosines` | input | F32 | [positions, rotary_dim / 2] | with "
                                  "`rotary=interleaved\\|half_split` | `cosines` |"));
  EXPECT_EQ(program.run({"operators", "merge", "--markdown", "--json"}).exit_code, 2);
}

TEST(Suggest, PrintsADescriptorThatOtherCommandsTake) {
  const Program program;
  const Result result = program.run({"suggest", "w4a16_gemm:format=awq", "--sizes", "m=16,n=8192,k=8192", "--arch",
                                     "sm_90a", "--multiprocessors", "132"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.out, "w4a16_gemm:format=awq,tile_m=16,tile_n=64\n");
  EXPECT_EQ(program
                .run({"suggest", "w4a16_gemm", "--sizes", "m=1,n=5120,k=25600", "--arch", "sm_90a", "--multiprocessors",
                      "132", "--memory-bandwidth", "3352"})
                .out,
            "w4a16_gemm:tile_m=8,tile_n=96\n");
  EXPECT_THAT(program.run({"operators", "w4a16_gemm"}).out, HasSubstr("cubit suggest chooses:"));
  EXPECT_EQ(program.run({"operators", "merge"}).out.find("cubit suggest"), std::string::npos);
}

TEST(Devices, ListsThemOrSaysWhyThereAreNone) {
  const Program program;
  const auto json = program.run({"devices", "--json"}).json();
  const Result text = program.run({"devices"});
  EXPECT_EQ(text.exit_code, 0);
  if (json.at("devices").empty()) {
    EXPECT_NE(json.at("trouble"), "");
    EXPECT_THAT(text.out, HasSubstr("no GPU: "));
  } else {
    EXPECT_THAT(text.out, HasSubstr("cuda:0"));
  }
  const bool has_cpu = json.at("cpu").at("trouble") == "";
  EXPECT_THAT(text.out, HasSubstr(has_cpu ? "\ncpu: executes" : "no CPU device: "));
}

TEST(Explain, ShowsEveryDecisionProofAndRejection) {
  const Program program;
  const Result json = program.run({"explain", "gqa_decode:heads_per_kv=8", "--arch", "sm_80", "--json"});
  ASSERT_EQ(json.exit_code, 0) << json.err;
  const auto plan = json.json();
  const Result text = program.run({"explain", "gqa_decode:heads_per_kv=8", "--arch", "sm_80"});
  EXPECT_THAT(text.out, HasSubstr(plan.at("request_key").get<std::string>()));
  ASSERT_FALSE(plan.at("decisions").empty());
  ASSERT_FALSE(plan.at("proofs").empty());
  for (const auto& decision : plan.at("decisions")) {
    EXPECT_THAT(text.out, HasSubstr(decision.at("why").get<std::string>()));
  }
  for (const auto& proof : plan.at("proofs")) EXPECT_THAT(text.out, HasSubstr(proof.at("access").get<std::string>()));
  for (const auto& rejection : plan.at("rejections")) {
    EXPECT_THAT(text.out, HasSubstr(rejection.at("why").get<std::string>()));
  }
  EXPECT_EQ(plan.contains("resources"), program.has_compiler());
  EXPECT_EQ(text.out.find("namespace plan"), std::string::npos);
  EXPECT_THAT(program.run({"explain", "gqa_decode", "--arch", "sm_80", "--source"}).out, HasSubstr("namespace plan"));
}

TEST(Explain, ListsTheMembersOfASet) {
  const Program program;
  const std::vector<std::string> arguments = {"explain", "w4a16_gemm:tile_n=64", "--arch", "sm_80"};
  const Result text = program.run(arguments);
  ASSERT_EQ(text.exit_code, 0) << text.err;
  EXPECT_THAT(text.out, HasSubstr("w4a16_gemm:tile_n=64 for sm_80 is a set of 2 kernels."));
  std::vector<std::string> with_json = arguments;
  with_json.emplace_back("--json");
  const auto set = program.run(with_json).json();
  ASSERT_EQ(set.at("members").size(), 2u);
  for (const auto& member : set.at("members")) {
    const auto descriptor = member.at("descriptor").get<std::string>();
    EXPECT_THAT(text.out, HasSubstr(descriptor));
    EXPECT_EQ(member.contains("resources"), program.has_compiler());
    EXPECT_EQ(member.at("request_key"),
              program.run({"explain", descriptor, "--arch", "sm_80", "--json"}).json().at("request_key"));
    for (const auto& serves : member.at("serves"))
      EXPECT_THAT(text.out, HasSubstr(serves.at("sizes").get<std::string>()));
  }
  for (const char* option : {"--measure", "--source"}) {
    std::vector<std::string> with_option = arguments;
    with_option.emplace_back(option);
    const Result refused = program.run(with_option);
    EXPECT_EQ(refused.exit_code, 2);
    EXPECT_THAT(refused.err, HasSubstr("names a set of kernels, and this option shows one plan; name a member"));
  }
}

TEST(Compile, MakesEveryMemberOfASetOnce) {
  const Program program;
  SKIP_WITHOUT_COMPILER(program);
  const Result result =
      program.run({"compile", "w4a16_gemm:tile_n=64", "w4a16_gemm:tile_m=8,tile_n=64", "--arch", "sm_80", "--json"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const auto json = result.json();
  ASSERT_EQ(json.size(), 2u);
  EXPECT_EQ(json[0].at("descriptor"), "w4a16_gemm:tile_m=8,tile_n=64");
  EXPECT_EQ(json[1].at("descriptor"), "w4a16_gemm:tile_m=16,tile_n=64");
}

TEST(Compile, TheSecondCallFindsEverythingInTheCache) {
  const Program program;
  SKIP_WITHOUT_COMPILER(program);
  const std::vector<std::string> arguments = {"compile", kSmall,         "stream_read:blocks_per_sm=2",
                                              "--arch",  "sm_80,sm_90a", "--json"};
  const Result first = program.run(arguments);
  const Result second = program.run(arguments);
  ASSERT_EQ(first.exit_code, 0) << first.err;
  ASSERT_EQ(second.exit_code, 0) << second.err;
  auto before = first.json();
  auto after = second.json();
  ASSERT_EQ(before.size(), after.size());
  for (std::size_t i = 0; i < before.size(); ++i) {
    EXPECT_EQ(after[i].at("compiled"), false);
    EXPECT_GT(before[i].at("cubin_bytes"), 0);
    EXPECT_GT(before[i].at("registers"), 0);
    EXPECT_EQ(before[i].at("spill_bytes"), 0);
    for (const char* field : {"descriptor", "arch", "key", "registers", "shared_memory", "cubin_bytes"}) {
      EXPECT_EQ(before[i].at(field), after[i].at(field)) << field;
    }
  }
  EXPECT_TRUE(
      std::any_of(before.begin(), before.end(), [](const auto& entry) { return entry.at("compiled") == true; }));
}

// Scripts read these fields: an added or missing field changes the interface.
TEST(Compile, JsonHasExactlyTheseFields) {
  const Program program;
  SKIP_WITHOUT_COMPILER(program);
  const auto json = program.run({"compile", kSmall, "--arch", "sm_80", "--json"}).json();
  ASSERT_EQ(json.size(), 1u);
  std::vector<std::string> fields;
  for (const auto& [name, value] : json[0].items()) fields.push_back(name);
  EXPECT_THAT(fields, ::testing::UnorderedElementsAre("descriptor", "arch", "key", "compiled", "milliseconds",
                                                      "registers", "spill_bytes", "shared_memory", "cubin_bytes"));
}

TEST(Compile, HelpNamesTheUsualArchitectures) {
  EXPECT_THAT(Program().run({"compile", "--help"}).out, HasSubstr("sm_80, sm_86, sm_89, sm_90a, sm_100a, sm_120"));
}

TEST(Compile, OneRowPerDescriptorHoweverOftenItIsSpelled) {
  const Program program;
  SKIP_WITHOUT_COMPILER(program);
  const Result result =
      program.run({"compile", kSmall, "--file", "-", "--arch", "sm_80,sm_80", "--json"}, "stream_read # again\n");
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.json().size(), 1u);
}

TEST(Score, AFileIsCodeByItsName) {
  const Program program;
  const std::string file = program.folder().path("half.cuh");
  constexpr const char* kCode =
      "__device__ float modify_score(float s, const cubit::ScorePlace&, const void*) { return s; }";
  std::ofstream(file) << kCode;
  const std::vector<std::string> explain = {
      "explain", "gqa_decode:score=half,window=true", "--arch", "sm_80", "--score", "half=" + file, "--json"};
  const Result first = program.run(explain);
  ASSERT_EQ(first.exit_code, 0) << first.err;
  EXPECT_THAT(first.json().at("descriptor").get<std::string>(),
              ::testing::MatchesRegex("gqa_decode:score=half@[0-9a-f]+,window=true"));
  EXPECT_THAT(first.json().at("plan_header").get<std::string>(), HasSubstr("#include \"user/half.cuh\""));
  const Result twice = program.run(
      {"explain", "gqa_decode:score=half", "--arch", "sm_80", "--score", "half=" + file, "--score", "half=" + file});
  EXPECT_EQ(twice.exit_code, 2);
  EXPECT_THAT(twice.err, HasSubstr("the name is given twice; give each score a name of its own"));
  std::ofstream(file) << kCode << " ";
  EXPECT_NE(program.run(explain).json().at("request_key"), first.json().at("request_key"));
  SKIP_WITHOUT_COMPILER(program);
  std::ofstream(file) << "\n" << kCode << "\nint wrong = ;\n";
  const Result wrong = program.run({"compile", "gqa_decode:score=half", "--arch", "sm_80", "--score", "half=" + file});
  EXPECT_EQ(wrong.exit_code, 1);
  EXPECT_THAT(wrong.err, AllOf(HasSubstr("user/half.cuh(3): error"), HasSubstr(">     3 | int wrong = ;")));
}

TEST(Compile, TheTableHasTheSameNumbers) {
  const Program program;
  SKIP_WITHOUT_COMPILER(program);
  const auto entry = program.run({"compile", kSmall, "--arch", "sm_80", "--json"}).json().at(0);
  const Result table = program.run({"compile", kSmall, "--arch", "sm_80"});
  EXPECT_THAT(table.out, AllOf(HasSubstr("registers"), HasSubstr("cached"), HasSubstr(entry.at("cubin_bytes").dump())));
}

TEST(Compile, WritesCubinsToAFolder) {
  const Program program;
  SKIP_WITHOUT_COMPILER(program);
  const std::string folder = program.folder().path("cubins");
  ASSERT_EQ(program.run({"compile", kSmall, "--arch", "sm_80,sm_90a", "--output", folder}).exit_code, 0);
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.is_directory()) continue;  // the entries, for cubit itself
    EXPECT_EQ(test::read_file(entry.path()).substr(1, 3), "ELF");
    ++files;
  }
  EXPECT_EQ(files, 2);
}

TEST(Compile, OneFailureDoesNotStopTheOthers) {
  const Program program;
  SKIP_WITHOUT_COMPILER(program);
  ASSERT_EQ(program.run({"compile", kSmall, "--arch", "sm_80"}).exit_code, 0);
  const Result result = program.run({"compile", kSmall, "--arch", "sm_90a,sm_80", "--json", "--compile", "never"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, HasSubstr("stream_read"));
  const auto json = result.json();
  ASSERT_EQ(json.size(), 2u);
  EXPECT_THAT(json[0].at("error").get<std::string>(), HasSubstr("stream_read"));
  EXPECT_FALSE(json[1].contains("error"));
}

/// Of hundreds of missing kernels, hundreds of sentences would hide the commands.
TEST(Compile, MissingKernelsAreListedInCommandsToPaste) {
  const Program program;
  const Result result =
      program.run({"compile", "merge", "stream_copy", kSmall, "--arch", "sm_80,sm_90a", "--ptx", "--compile", "never"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, HasSubstr("cubit: merge for sm_80: no cache holds the kernel"));
  EXPECT_THAT(result.err, testing::Not(HasSubstr("stream_copy for")));
  const std::string all = std::string(" 'merge' 'stream_copy' '") + kSmall + "'";
  EXPECT_THAT(result.err, HasSubstr("11 more kernels are missing; these commands compile all of them:\n"
                                    "  cubit compile" +
                                    all +
                                    " --arch sm_80 --ptx\n"
                                    "  cubit compile" +
                                    all +
                                    " --arch sm_90a --ptx\n"
                                    "  cubit compile" +
                                    all +
                                    " --arch sm_80\n"
                                    "  cubit compile" +
                                    all + " --arch sm_90a\n"));
}

TEST(Compile, VerboseShowsTheLog) {
  const Program program;
  SKIP_WITHOUT_COMPILER(program);
  EXPECT_NE(program.run({"--verbose", "compile", kSmall, "--arch", "sm_80"}).err, "");
  EXPECT_EQ(program.run({"compile", kSmall, "--arch", "sm_86"}).err, "");
}

/// The only entry file of the cache; lock files do not count.
std::string entry_file(const Program& program) {
  std::string largest;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(program.cache())) {
    if (entry.is_regular_file() && (largest.empty() || entry.file_size() > std::filesystem::file_size(largest)))
      largest = entry.path();
  }
  return largest;
}

TEST(Cache, ListsVerifiesAndClears) {
  const Program program;
  SKIP_WITHOUT_COMPILER(program);
  ASSERT_EQ(program.run({"compile", kSmall, "--arch", "sm_80"}).exit_code, 0);
  EXPECT_THAT(program.run({"cache", "list"}).out,
              AllOf(HasSubstr("stream_read"), HasSubstr("sm_80"), HasSubstr("1 entry")));
  EXPECT_EQ(program.run({"cache", "verify"}).exit_code, 0);
  EXPECT_THAT(program.run({"cache", "clear"}).out, HasSubstr("1 entry removed"));
  EXPECT_THAT(program.run({"cache", "list"}).out, HasSubstr("0 entries"));
}

TEST(Cache, VerifyFindsDamageOnceAndExitsWithOne) {
  const Program program;
  SKIP_WITHOUT_COMPILER(program);
  ASSERT_EQ(program.run({"compile", kSmall, "--arch", "sm_80"}).exit_code, 0);
  const std::string path = entry_file(program);
  std::string bytes = test::read_file(path);
  bytes[bytes.size() / 2] ^= 1;
  std::ofstream(path, std::ios::binary) << bytes;
  const Result result = program.run({"cache", "verify", "--json"});
  EXPECT_EQ(result.exit_code, 1) << result.err;
  ASSERT_EQ(result.json().at("entries").size(), 1u);
  EXPECT_EQ(result.json().at("entries").at(0).at("removed"), true);
  EXPECT_EQ(program.run({"cache", "verify"}).exit_code, 0);
}

TEST(Cache, TheDoctorFindsADamagedEntry) {
  const Program program;
  SKIP_WITHOUT_COMPILER(program);
  ASSERT_EQ(program.run({"compile", kSmall, "--arch", "sm_80"}).exit_code, 0);
  const Result healthy = program.run({"cache", "doctor"});
  EXPECT_EQ(healthy.exit_code, 0) << healthy.out;
  EXPECT_THAT(healthy.out, AllOf(HasSubstr("entries: good"), HasSubstr("staging and lock files: good\n")));
  const std::string path = entry_file(program);
  const std::string lock = std::filesystem::path(path).replace_extension(".lock");
  std::ofstream(lock) << "";
  EXPECT_THAT(program.run({"cache", "doctor"}).out, HasSubstr("lock files: good; 1 of dead processes deleted"));
  EXPECT_FALSE(std::filesystem::exists(lock));
  std::string bytes = test::read_file(path);
  bytes[bytes.size() / 2] ^= 1;
  std::ofstream(path, std::ios::binary) << bytes;
  const Result ill = program.run({"cache", "doctor"});
  EXPECT_EQ(ill.exit_code, 1);
  EXPECT_THAT(ill.out, HasSubstr("1 entry is not usable"));
}

TEST(Cache, WhatCannotBeDeletedIsNotCalledDeleted) {
  const Program program;
  const std::filesystem::path in_the_way =
      std::filesystem::path(program.cache()) / "v2" / (std::string(64, 'a') + "-nvrtc13.0.88.cubit") / "inside";
  std::filesystem::create_directories(in_the_way);
  for (int time = 0; time < 2; ++time) {
    const Result result = program.run({"cache", "verify"});
    EXPECT_EQ(result.exit_code, 1);
    EXPECT_THAT(result.out, HasSubstr("1 of 1 entries are not good: 0 deleted, 1 could not be deleted"));
  }
  EXPECT_EQ(program.run({"cache", "verify", "--json"}).json().at("entries").at(0).at("removed"), false);
  const Result clear = program.run({"cache", "clear"});
  EXPECT_EQ(clear.exit_code, 1);
  EXPECT_THAT(clear.out, HasSubstr("0 entries removed, 1 could not be"));
  EXPECT_TRUE(std::filesystem::exists(in_the_way));
}

TEST(Run, WithoutAGpuTheCpuComputesAndChecks) {
  const Program program;
  SKIP_WITHOUT_COMPILER(program);
  const Result result =
      program.run({"run", kSmall, "--random", kRandom, "--device", "cpu", "--arch", "sm_90a", "--check", "--json"});
  if (result.err.find("libcubit_cpu") != std::string::npos) GTEST_SKIP() << result.err;
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.json().at("arch"), "cpu:sm_90a");
  EXPECT_EQ(result.json().at("check").at("good"), true);
}

TEST(Run, OfASetNamesTheMemberThatRan) {
  const Program program;
  SKIP_WITHOUT_COMPILER(program);
  const Result result = program.run({"run", "w4a16_gemm:tile_n=64", "--random", "m=3,n=64,k=128", "--device", "cpu",
                                     "--arch", "sm_80", "--check", "--json"});
  if (result.err.find("libcubit_cpu") != std::string::npos) GTEST_SKIP() << result.err;
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.json().at("descriptor"), "w4a16_gemm:tile_n=64");
  EXPECT_EQ(result.json().at("kernel").at("descriptor"), "w4a16_gemm:tile_m=8,tile_n=64");
}

TEST(Run, WithoutADeviceTheReportIsTheResult) {
  const Program program;
  SKIP_WITHOUT_COMPILER(program);
  if (has_device(program)) GTEST_SKIP() << "this machine has a GPU";
  const Result result = program.run({"run", kSmall, "--random", kRandom, "--arch", "sm_80,sm_90a"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, AllOf(HasSubstr("registers"), HasSubstr("sm_80")));
  EXPECT_THAT(result.err, AllOf(HasSubstr("no GPU: "), HasSubstr("nothing was computed")));
}

TEST(Run, WithoutADeviceAnOutputFileIsNotWrittenAndThatIsAFailure) {
  const Program program;
  SKIP_WITHOUT_COMPILER(program);
  if (has_device(program)) GTEST_SKIP() << "this machine has a GPU";
  const std::string out = program.folder().path("out.safetensors");
  const Result result = program.run({"run", kSmall, "--random", kRandom, "--arch", "sm_80,sm_90a", "--output", out});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.out, HasSubstr("registers"));
  EXPECT_THAT(result.err, HasSubstr(out + " was not written"));
  EXPECT_FALSE(std::filesystem::exists(out));
}

TEST(Run, WithoutADeviceACheckOrATimeIsAFailure) {
  const Program program;
  SKIP_WITHOUT_COMPILER(program);
  if (has_device(program)) GTEST_SKIP() << "this machine has a GPU";
  for (const char* demand : {"--check", "--bench"}) {
    const Result result = program.run({"run", kSmall, "--random", kRandom, "--arch", "sm_80,sm_90a", demand, "--json"});
    EXPECT_EQ(result.exit_code, 1);
    EXPECT_TRUE(result.json().at("device").is_null());
    EXPECT_EQ(result.json().at("kernels").size(), 2u);
  }
  EXPECT_EQ(program.run({"bench", kSmall, "--random", kRandom}).exit_code, 1);
  EXPECT_EQ(program.run({"run", kSmall, "--random", kRandom, "--device", "cuda:0"}).exit_code, 1);
}

}  // namespace
}  // namespace cubit::tools
