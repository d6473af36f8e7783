// Checks the JSON lists of operators, architectures and devices against the fields that cubit.h documents, and errors
// in three parts per thread.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <cubit/check.hpp>

#include <nlohmann/json.hpp>
#include <thread>

namespace {

using nlohmann::json;
using ::testing::HasSubstr;

void expect_fields(const json& object, const std::vector<std::string>& names) {
  for (const std::string& name : names) EXPECT_TRUE(object.contains(name)) << name << " in " << object.dump();
}

TEST(Catalogue, OperatorsExplainTheirFields) {
  const json list = json::parse(cubit::operators());
  ASSERT_GE(list.size(), 2U);
  for (const json& op : list) {
    expect_fields(op, {"name", "summary", "fields", "tensors", "suggest"});
    for (const json& field : op["fields"]) expect_fields(field, {"name", "accepts", "default", "meaning"});
  }
}

json argument_named(const json& table, const std::string& name) {
  for (const json& argument : table["arguments"])
    if (argument["name"] == name) return argument;
  return {};
}

TEST(Catalogue, ArgumentsAreThoseThatADescriptorTakes) {
  const json rows = json::parse(cubit::arguments("gqa_decode:heads_per_kv=8,kv=int4_rows,groups=4"));
  EXPECT_EQ(rows["operator"], "gqa_decode");
  EXPECT_EQ(rows["sizes"]["heads_per_kv"], 8);
  EXPECT_EQ(rows["sizes"]["value_groups"], 4);
  EXPECT_TRUE(argument_named(rows, "key_scale").is_null()) << "the rows have their scales";
  EXPECT_TRUE(argument_named(rows, "page_table").is_null()) << "the cache is contiguous";
  const json key = argument_named(rows, "key");
  expect_fields(key, {"name", "kind", "types", "shape", "strides", "optional", "default", "usual", "offset", "bytes"});
  EXPECT_EQ(key["types"], "U8");
  EXPECT_EQ(key["shape"], "[batch, max_length or more, kv_heads, 4 * groups + head_dim / 2]");
  EXPECT_EQ(key["strides"].size(), 3U);
  EXPECT_EQ(argument_named(rows, "output")["types"], "BF16") << "the default is the query's type";
  EXPECT_EQ(argument_named(rows, "softmax_scale")["usual"], "1 / sqrt(head_dim)");
  const json kept = json::parse(cubit::arguments("norm_quantize:output=unquantised,input=bf16"));
  EXPECT_EQ(argument_named(kept, "output")["types"], "BF16") << "the result keeps the type of the input";
  EXPECT_THROW((void)cubit::arguments("gqa_decode:kv=int3"), cubit::Error);
}

/// libcubit and libcubit_check know the same operators, in the same order.
TEST(Catalogue, EveryOperatorCanBeChecked) {
  const json list = json::parse(cubit::operators());
  const json checks = json::parse(cubit::check_operators());
  ASSERT_EQ(list.size(), checks.size());
  for (std::size_t i = 0; i < list.size(); ++i) {
    EXPECT_EQ(list[i]["name"], checks[i]["name"]);
    expect_fields(checks[i], {"name", "random", "bench", "decompositions"});
    for (const json& one : checks[i]["bench"]) expect_fields(one, {"group", "name", "descriptor", "sizes"});
  }
}

TEST(Catalogue, AnErrorOfLibcubitCheckIsTheThreadsLastError) {
  cubit_problem* problem = nullptr;
  EXPECT_EQ(cubit_problem_random("gemm", nullptr, 0, 1, &problem), CUBIT_INVALID_ARGUMENT);
  EXPECT_THAT(cubit_last_error()->message, HasSubstr("there is no operator \"gemm\"; accepted: "));
  EXPECT_STREQ(cubit_last_error()->what, "descriptor \"gemm\"");
}

TEST(Catalogue, LibrariesAboveSetTheLastError) {
  cubit_set_last_error(CUBIT_UNSUPPORTED, "a", "b", nullptr);
  EXPECT_EQ(cubit_last_error()->status, CUBIT_UNSUPPORTED);
  EXPECT_STREQ(cubit_last_error()->message, "a: b");
  cubit_set_last_error(CUBIT_INTERNAL, nullptr, "b", "c");
  EXPECT_STREQ(cubit_last_error()->message, ": b; c");
}

TEST(Catalogue, ArchitecturesAscend) {
  const json list = json::parse(cubit::architectures());
  int last = 0;
  for (const json& row : list) {
    expect_fields(row, {"name", "capability", "shared_memory_per_sm"});
    EXPECT_GE(row["capability"].get<int>(), last);
    last = row["capability"].get<int>();
  }
  EXPECT_EQ(list.front()["capability"], 75);
  EXPECT_EQ(last, 121);
}

TEST(Catalogue, DevicesOrTheReasonWhyThereAreNone) {
  const json all = json::parse(cubit::devices());
  EXPECT_NE(all["devices"].empty(), all["trouble"].get<std::string>().empty());
}

TEST(Catalogue, CanonicalTextLeavesDefaultsOut) {
  EXPECT_EQ(cubit::canonical("stream_read:blocks_per_sm=4"), "stream_read");
  EXPECT_EQ(cubit::canonical("stream_read:blocks_per_sm=2"), "stream_read:blocks_per_sm=2");
}

TEST(Catalogue, SuggestionsAreDescriptors) {
  const cubit::Problem::Numbers sizes = {{"m", 16}, {"n", 8192}, {"k", 8192}};
  EXPECT_EQ(cubit::suggest("w4a16_gemm:tile_m=64", sizes, "sm_90a", 132), "w4a16_gemm:tile_m=64,tile_n=256");
  EXPECT_EQ(cubit::suggest("stream_read:blocks_per_sm=4", {}, "sm_80", 108), "stream_read");
  const cubit::Problem::Numbers long_k = {{"m", 1}, {"n", 5120}, {"k", 25600}};
  EXPECT_EQ(cubit::suggest("w4a16_gemm", long_k, "sm_90a", 132), "w4a16_gemm:tile_m=8,tile_n=256");
  EXPECT_EQ(cubit::suggest("w4a16_gemm", long_k, "sm_90a", 132, 3352320000000), "w4a16_gemm:tile_m=8,tile_n=96")
      << "an H100's memory";
  try {
    cubit::suggest("w4a16_gemm", sizes, "sm_90a", 132, -1);
    ADD_FAILURE() << "accepted";
  } catch (const cubit::Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("memory_bytes_per_second = -1: a bandwidth is 0 or more bytes per second"));
  }
  for (const int multiprocessors : {0, -1, 1 << 30}) {
    try {
      cubit::suggest("w4a16_gemm", sizes, "sm_90a", multiprocessors);
      ADD_FAILURE() << "accepted";
    } catch (const cubit::Error& error) {
      EXPECT_EQ(error.code(), CUBIT_INVALID_ARGUMENT);
      EXPECT_THAT(error.what(), HasSubstr("a device has 1 to 65536"));
    }
  }
}

TEST(Catalogue, ExplainTellsThePlan) {
  const json plan = json::parse(cubit::explain("stream_read:blocks_per_sm=4", "sm_80"));
  expect_fields(
      plan, {"descriptor", "architecture", "family", "decisions", "proofs", "fragments", "rejections",
             "spills_allowed_because", "request_key", "template", "plan_header", "threads", "dynamic_shared_memory"});
  EXPECT_EQ(plan["descriptor"], "stream_read");
  EXPECT_EQ(plan["architecture"], "sm_80");
  EXPECT_EQ(plan["request_key"].get<std::string>().size(), 64U);
  EXPECT_THAT(plan["plan_header"].get<std::string>(), HasSubstr("namespace plan"));
}

TEST(Catalogue, LayoutsAgreeWithThePlan) {
  const std::string descriptor = "gqa_decode:heads_per_kv=8,kv=int4_rows";
  const json plan = json::parse(cubit::explain(descriptor, "sm_80"));
  const json layouts = json::parse(cubit::explain_layouts(descriptor, "sm_80"));
  ASSERT_EQ(layouts["fragments"].size(), plan["fragments"].size());
  for (const json& fragment : layouts["fragments"]) {
    expect_fields(fragment, {"name", "section", "rows", "columns", "element_bits", "elements"});
    EXPECT_EQ(fragment["elements"].size(), 32U);
  }
  std::vector<std::string> accesses;
  for (const json& tile : layouts["tiles"]) {
    expect_fields(tile, {"name", "layout", "rows", "row_bytes", "pitch", "bytes", "words", "accesses"});
    for (const json& access : tile["accesses"]) {
      accesses.push_back(access["name"]);
      const json& proof = plan["proofs"].at(accesses.size() - 1);
      EXPECT_EQ(access["name"], proof["access"]);
      EXPECT_EQ(access["wavefronts"], proof["wavefronts"]);
      EXPECT_EQ(access["degree"], proof["degree"]);
    }
  }
  EXPECT_EQ(accesses.size(), plan["proofs"].size());
  EXPECT_EQ(layouts["memory"]["bytes"], plan["dynamic_shared_memory"]);
}

// Regions of one phase do not overlap and lie inside the block's shared memory.
TEST(Catalogue, MemoryMapsDoNotOverlap) {
  const std::pair<const char*, const char*> kernels[] = {{"gqa_decode", "sm_86"},
                                                         {"gqa_decode:heads_per_kv=16", "sm_86"},
                                                         {"gqa_decode:kv=int4_rows,groups=8", "sm_86"},
                                                         {"gqa_decode:kv=int4_rows,groups=4,family=sm90", "sm_90a"}};
  for (const auto& [descriptor, architecture] : kernels) {
    const json memory = json::parse(cubit::explain_layouts(descriptor, architecture))["memory"];
    ASSERT_FALSE(memory["regions"].empty());
    std::string phase;
    int end = 0;
    int most = 0;
    for (const json& region : memory["regions"]) {
      if (region["phase"] != phase) end = 0;
      phase = region["phase"];
      EXPECT_GE(region["offset"].get<int>(), end) << descriptor << ": " << region.dump();
      EXPECT_GT(region["bytes"].get<int>(), 0);
      end = region["offset"].get<int>() + region["bytes"].get<int>();
      most = std::max(most, end);
    }
    EXPECT_EQ(memory["bytes"], most) << descriptor;
  }
}

TEST(Errors, HaveThreePartsOfOneSentence) {
  try {
    cubit::canonical("no_such_operator:field=1");
    FAIL();
  } catch (const cubit::Error& error) {
    EXPECT_EQ(error.code(), CUBIT_INVALID_ARGUMENT);
    EXPECT_THAT(error.what(), HasSubstr("no_such_operator"));
    EXPECT_THAT(error.what(), HasSubstr("gqa_decode"));
    EXPECT_EQ(error.what(), error.given() + ": " + error.why() + "; " + error.remedy());
  }
}

TEST(Errors, BelongToTheirThread) {
  EXPECT_THROW(cubit::canonical("no_such_operator"), cubit::Error);
  std::thread([] {
    EXPECT_EQ(cubit_last_error()->status, CUBIT_OK);
    EXPECT_STREQ(cubit_last_error()->message, "");
    EXPECT_THROW(cubit::explain("stream_read", "sm_1"), cubit::Error);
  }).join();
  EXPECT_THAT(cubit_last_error()->message, HasSubstr("no_such_operator"));
}

TEST(Errors, UnknownArchitectureListsTheKnown) {
  try {
    cubit::explain("stream_read", "sm_1");
    FAIL();
  } catch (const cubit::Error& error) {
    EXPECT_EQ(error.code(), CUBIT_UNSUPPORTED);
    EXPECT_THAT(error.what(), HasSubstr("sm_90a"));
  }
}

TEST(Errors, UnknownDeviceNameSaysHowOneLooks) {
  for (const char* name : {"", "cuda", "cuda:", "cuda:x", "cuda:-1", "cuda:0 ", "cuda:99999999999", "cpu"}) {
    cubit_device* device = nullptr;
    EXPECT_EQ(cubit_device_open(name, &device), CUBIT_INVALID_ARGUMENT) << name;
    EXPECT_THAT(cubit_last_error()->message, HasSubstr("give \"cuda:0\"")) << name;
    EXPECT_EQ(device, nullptr);
  }
}

}  // namespace
