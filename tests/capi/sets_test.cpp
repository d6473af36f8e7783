// Proves, with fake GPUs and a prepared cache: a descriptor without tiles is one handle for a set of kernels, whose
// members are the kernels of their own texts; a launch takes a member by its sizes and never compiles.
#include <cubit/w4a16_gemm.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <cubit/cubit.hpp>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "tests/capi/allocations.hpp"
#include "tests/capi/prepared_cache.hpp"

namespace cubit {
namespace {

using nlohmann::json;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

constexpr const char* kSet = "w4a16_gemm:format=awq";

class CapiSets : public ::testing::Test {
 protected:
  void SetUp() override {
    fake::plug_in(2);
    members_ = json::parse(members(kSet, "sm_90a")).get<std::vector<std::string>>();
    for (const std::string& member : members_) cache_.add(member);
    arguments_.size = sizeof arguments_;
    arguments_.activations = arguments_.qweight = arguments_.qzeros = arguments_.scales = data_;
    arguments_.output = data_ + 256;
    arguments_.activation_stride = 8192;
    arguments_.output_stride = 8192;
    arguments_.m = 1;
    arguments_.n = arguments_.k = 8192;
  }
  Engine engine() const {
    return Engine({.cache_dir = cache_.path(), .nvrtc_path = fake::kNoCompiler, .compile = CUBIT_COMPILE_NEVER});
  }
  /// A workspace of the fake driver, whose memory is the heap's, for launches of up to `rows` rows.
  LaunchOptions place(const Device& device, const Kernel& kernel, int rows, cubit_stream stream = nullptr) {
    constexpr std::size_t kAlignment = 256;
    const int m = std::exchange(arguments_.m, rows);
    std::size_t bytes = kernel.workspace(arguments_, &device);
    arguments_.m = m;
    workspace_.resize(bytes + kAlignment);
    std::size_t room = workspace_.size();
    void* aligned = workspace_.data();
    std::align(kAlignment, bytes, aligned, room);
    return {.device = &device, .stream = stream, .workspace = aligned, .workspace_bytes = bytes};
  }
  static std::string text_of(const Kernel& kernel) { return json::parse(kernel.describe())["descriptor"]; }

  fake::PreparedCache cache_;
  fake::Controls& driver_ = fake::controls();
  std::vector<std::string> members_;
  alignas(256) char data_[512] = {};
  std::vector<char> workspace_;
  cubit_w4a16_gemm_arguments arguments_{};
};

TEST_F(CapiSets, NeverCompileNamesTheSetOfTheMissingMembers) {
  constexpr const char* kOther = "w4a16_gemm:format=gptq";
  const auto texts = json::parse(members(kOther, "sm_90a")).get<std::vector<std::string>>();
  const Engine made = engine();
  EXPECT_TRUE(made.is_cached(kSet, "sm_90a"));
  EXPECT_FALSE(made.is_cached(kOther, "sm_90a"));
  cache_.add(texts.front());
  EXPECT_FALSE(made.is_cached(kOther, "sm_90a"));
  const auto expect_all = [&](const auto& request) {
    try {
      request();
      FAIL() << "found";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), CUBIT_NOT_CACHED);
      EXPECT_THAT(
          error.what(),
          testing::ContainsRegex("[(]cubit compile 'w4a16_gemm(:format=gptq)?' --arch sm_90a --cache-dir '[^']+'[)]"));
      EXPECT_THAT(error.what(), HasSubstr(fmt::format(" and {} more kernels", texts.size() - 2)));
      EXPECT_LT(std::string_view(error.what()).size(), 400U);
    }
  };
  expect_all([&] { made.get(kOther, "sm_90a"); });
  const std::vector<Device> devices = {Device("cuda:0"), Device("cuda:1")};
  const std::vector<std::string> wanted = {kSet, kOther};
  expect_all([&] { made.prepare(wanted, devices); });
}

TEST_F(CapiSets, AreOneHandleWhoseMembersAreTheKernelsOfTheirTexts) {
  const Engine made = engine();
  const Kernel set = made.get(kSet, "sm_90a");
  ASSERT_GT(members_.size(), 2u);
  ASSERT_EQ(set.member_count(), members_.size());
  EXPECT_EQ(made.counters().disk_hits, members_.size());
  EXPECT_EQ(made.counters().compiles, 0u);
  for (std::size_t i = 0; i < members_.size(); ++i) {
    const Kernel member = set.member(i);
    EXPECT_EQ(text_of(member), members_[i]);
    EXPECT_EQ(member.handle(), made.get(members_[i], "sm_90a").handle());
    EXPECT_EQ(member.member_count(), 1u);
    EXPECT_EQ(member.member(0).handle(), member.handle());
    EXPECT_EQ(member.cubin().size(), 64u);
  }
  EXPECT_EQ(made.get("w4a16_gemm:tile_n=auto,format=awq", "sm_90a").handle(), set.handle()) << "one set, one handle";
  EXPECT_EQ(made.counters().disk_hits, members_.size());
}

TEST_F(CapiSets, DescribeThemselvesByTheirMembers) {
  const json described = json::parse(engine().get(kSet, "sm_90a").describe());
  EXPECT_EQ(described["descriptor"], kSet);
  EXPECT_EQ(described["architecture"], "sm_90a");
  ASSERT_THAT(described["members"], SizeIs(members_.size()));
  for (std::size_t i = 0; i < members_.size(); ++i) {
    EXPECT_EQ(described["members"][i]["descriptor"], members_[i]);
    EXPECT_EQ(described["members"][i]["registers"], 42);
  }
}

TEST_F(CapiSets, HaveNoCodeOfTheirOwn) {
  const Kernel set = engine().get(kSet, "sm_90a");
  EXPECT_THROW(set.cubin(), Error);
  EXPECT_THAT(cubit_last_error()->message,
              HasSubstr("kernels, each with code of its own; ask for the code of a member"));
  EXPECT_THROW(set.launch_raw(1, 1, 1, 7, {}), Error);
  EXPECT_THROW(set.member(members_.size()), Error);
  EXPECT_EQ(cubit_last_error()->status, CUBIT_INVALID_ARGUMENT);
  EXPECT_THAT(cubit_last_error()->message, HasSubstr("accepted: 0 to "));
}

TEST_F(CapiSets, OfOneMemberAreThatKernel) {
  const Engine made = engine();
  const Kernel narrowed = made.get("w4a16_gemm:format=awq,tile_m=32", "sm_90a");
  EXPECT_EQ(narrowed.member_count(), 1u);
  EXPECT_EQ(narrowed.handle(), made.get("w4a16_gemm:format=awq,tile_m=32,tile_n=256", "sm_90a").handle());
  EXPECT_EQ(narrowed.cubin().size(), 64u);
}

TEST_F(CapiSets, AMissingMemberIsNamed) {
  const Engine made = engine();
  const std::string bf16 = "w4a16_gemm:format=awq,element=bf16";
  const auto texts = json::parse(members(bf16, "sm_90a")).get<std::vector<std::string>>();
  for (std::size_t i = 1; i < texts.size(); ++i) cache_.add(texts[i]);
  try {
    made.get(bf16, "sm_90a");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), CUBIT_NOT_CACHED);
    EXPECT_THAT(error.what(), HasSubstr(texts[0]));
  }
  cache_.add(texts[0]);
  EXPECT_EQ(made.get(bf16, "sm_90a").member_count(), texts.size());
}

TEST_F(CapiSets, LaunchesTakeTheMemberThatSuitsTheirSizes) {
  const Device device("cuda:0");
  const Engine made = engine();
  const Kernel set = made.get(kSet, "sm_90a");
  const LaunchOptions where = place(device, set, 4096);
  const auto before = made.counters();
  for (int repeat = 0; repeat < 3; ++repeat) {  // encoded, remembered, and from the table
    for (const int m : {1, 16, 64, 4096}) {
      arguments_.m = m;
      const std::size_t launches = driver_.launches().size();
      set.launch(arguments_, where);
      const Kernel taken = set.member(set.choose(arguments_, &device));
      taken.launch(arguments_, where);
      const auto all = driver_.launches();
      ASSERT_THAT(all, SizeIs(launches + 2));
      EXPECT_TRUE(
          std::equal(std::begin(all[launches].grid), std::end(all[launches].grid), std::begin(all[launches + 1].grid)));
      EXPECT_EQ(all[launches].threads, all[launches + 1].threads);
      EXPECT_EQ(text_of(taken), suggest(kSet, {{"m", m}, {"n", 8192}, {"k", 8192}}, "sm_90a", 132)) << m;
    }
  }
  EXPECT_EQ(made.counters().compiles, before.compiles);
  EXPECT_EQ(made.counters().disk_hits, before.disk_hits) << "a new size makes no kernel";
}

TEST_F(CapiSets, NeedTheWorkspaceOfTheMembersThatLaunchesTake) {
  const Device device("cuda:0");
  const Kernel set = engine().get(kSet, "sm_90a");
  for (const int most : {1, 100, 3000}) {
    const LaunchOptions where = place(device, set, most);
    arguments_.m = most;
    std::size_t of_any_member = 0;
    for (std::size_t i = 0; i < set.member_count(); ++i)
      of_any_member = std::max(of_any_member, set.member(i).workspace(arguments_, &device));
    EXPECT_LE(where.workspace_bytes, of_any_member);
    for (arguments_.m = 1; arguments_.m <= most; arguments_.m += arguments_.m < 100 ? 1 : 61)
      EXPECT_NO_THROW(set.launch(arguments_, where)) << arguments_.m << " of " << most;
  }
  arguments_.m = 1;
  arguments_.decomposition = CUBIT_W4A16_STREAM_K;  // which some members refuse
  EXPECT_GT(set.workspace(arguments_, &device), 0u);
  arguments_.n = 20;
  EXPECT_THROW(set.workspace(arguments_, &device), Error);
  EXPECT_THAT(cubit_last_error()->message, HasSubstr("n = 20: it must be a multiple of 8"));
  EXPECT_THROW(set.choose(arguments_, &device), Error);
}

TEST_F(CapiSets, PreparedHaveEveryMemberResident) {
  const std::vector<Device> devices = {Device("cuda:0"), Device("cuda:1")};
  const Engine made = engine();
  made.prepare(std::vector<std::string>{kSet}, devices);
  EXPECT_EQ(driver_.loads(), static_cast<int>(2 * members_.size()));
  made.prepare(std::vector<std::string>{kSet}, devices);
  EXPECT_EQ(driver_.loads(), static_cast<int>(2 * members_.size()));
  const auto hits = made.counters().disk_hits;
  const Kernel set = made.get(kSet, "sm_90a");
  EXPECT_EQ(made.counters().disk_hits, hits);
  cubit_stream const stream = devices[0].create_stream();
  const LaunchOptions where = place(devices[0], set, 4096, stream);
  const Graph graph = devices[0].capture(stream, [&] {
    for (const int m : {1, 16, 64, 4096}) {
      arguments_.m = m;
      set.launch(arguments_, where);
    }
  });
  EXPECT_EQ(devices[0].replay(graph, stream), 1.5);
}

TEST_F(CapiSets, AreRefusedDuringCaptureUntilAllMembersAreResident) {
  const Device device("cuda:0");
  const Kernel set = engine().get(kSet, "sm_90a");
  arguments_.m = 64;
  const Kernel taken = set.member(set.choose(arguments_, &device));
  for (std::size_t i = 0; i < set.member_count(); ++i) {
    if (set.member(i).handle() != taken.handle()) set.member(i).prepare(device);
  }
  cubit_stream const stream = device.create_stream();
  const LaunchOptions where = place(device, set, 64, stream);
  const auto launch = [&] { set.launch(arguments_, where); };
  const Graph graph = device.capture(stream, [&] {
    EXPECT_THROW(launch(), Error);
    EXPECT_EQ(cubit_last_error()->status, CUBIT_NOT_RESIDENT);
    EXPECT_THAT(cubit_last_error()->message, HasSubstr(text_of(taken)));
    set.prepare(device);
    launch();
  });
  ASSERT_THAT(driver_.launches(), SizeIs(1));
}

// The second launch of a size is in the thread's table, and a choice once made is remembered.
TEST_F(CapiSets, RepeatedLaunchesAllocateNothing) {
  const Device device("cuda:0");
  const Kernel set = engine().get(kSet, "sm_90a");
  set.prepare(device);
  const cubit_launch where = place(device, set, 4096).c();
  ASSERT_EQ(cubit_kernel_launch(set.handle(), &arguments_, &where), CUBIT_OK);
  cubit_status again = CUBIT_INTERNAL;
  cubit_status other_rows = CUBIT_INTERNAL;
  {
    const tests::CountAllocations allocations;
    again = cubit_kernel_launch(set.handle(), &arguments_, &where);
    EXPECT_EQ(allocations.count(), 0);
    arguments_.m = 7;
    other_rows = cubit_kernel_launch(set.handle(), &arguments_, &where);
    EXPECT_EQ(allocations.count(), 0);
  }
  EXPECT_EQ(again, CUBIT_OK);
  EXPECT_EQ(other_rows, CUBIT_OK);
}

TEST_F(CapiSets, OutliveTheirEngine) {
  const Device device("cuda:0");
  const Kernel member = engine().get(kSet, "sm_90a").member(0);
  EXPECT_EQ(text_of(member), members_[0]);
  const Kernel set = engine().get(kSet, "sm_90a");
  EXPECT_EQ(set.member_count(), members_.size());
}

TEST_F(CapiSets, ExplainTheirMembers) {
  const json explained = json::parse(explain(kSet, "sm_90a"));
  EXPECT_EQ(explained["descriptor"], kSet);
  ASSERT_THAT(explained["members"], SizeIs(members_.size()));
  for (std::size_t i = 0; i < members_.size(); ++i) {
    const json& member = explained["members"][i];
    const json alone = json::parse(explain(members_[i], "sm_90a"));
    EXPECT_EQ(member["descriptor"], members_[i]);
    EXPECT_EQ(member["request_key"], alone["request_key"]);
    EXPECT_EQ(member["family"], alone["family"]);
    EXPECT_THAT(member["serves"], SizeIs(4));
  }
  EXPECT_THROW(explain_layouts(kSet, "sm_90a"), Error);
  EXPECT_THAT(cubit_last_error()->message, HasSubstr("it names a set of "));
}

}  // namespace
}  // namespace cubit
