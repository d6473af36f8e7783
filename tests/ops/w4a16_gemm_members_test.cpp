// Tests of sets of w4a16_gemm kernels without a device: which members a descriptor without tiles has, and which member
// a launch takes.
#include <cubit/w4a16_gemm.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "ops/w4a16_gemm/members.hpp"
#include "tests/support/gemm_launches.hpp"
#include "tests/support/refusals.hpp"

namespace cubit::ops {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::SizeIs;
using tests::address;
using tests::arguments_of;
using tests::h200;
using tests::made_up_device;
using Arguments = cubit_w4a16_gemm_arguments;

constexpr const char* kArchitectures[] = {"sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_90a", "sm_100a", "sm_120"};

/// Descriptors that leave a tile to cubit.
constexpr const char* kSets[] = {"w4a16_gemm",
                                 "w4a16_gemm:format=awq",
                                 "w4a16_gemm:format=awq,alignment=4",
                                 "w4a16_gemm:element=bf16",
                                 "w4a16_gemm:bits=8",
                                 "w4a16_gemm:group_size=16",
                                 "w4a16_gemm:format=awq,group_size=16",
                                 "w4a16_gemm:group_size=32,function=silu_gate",
                                 "w4a16_gemm:format=awq,function=silu_gate,bias=true,residual=true",
                                 "w4a16_gemm:atomic_splits=true",
                                 "w4a16_gemm:batch_invariant=true",
                                 "w4a16_gemm:bits=8,batch_invariant=true",
                                 "w4a16_gemm:group_size=32,activation_order=true",
                                 "w4a16_gemm:family=sm75",
                                 "w4a16_gemm:family=sm80",
                                 "w4a16_gemm:family=sm90",
                                 "w4a16_gemm:family=sm90_persistent",
                                 "w4a16_gemm:tile_m=8",
                                 "w4a16_gemm:tile_m=16",
                                 "w4a16_gemm:tile_m=256",
                                 "w4a16_gemm:tile_n=160",
                                 "w4a16_gemm:tile_n=64",
                                 "w4a16_gemm:tile_n=256,element=bf16"};

std::vector<std::string> members_of(const std::string& text, const char* architecture) {
  return find_operator(text).members(text, codegen::find_architecture(architecture));
}

/// The members on the architecture; none if the architecture serves no member.
std::vector<W4a16Gemm> served_members(const char* text, const char* architecture) {
  try {
    return w4a16_gemm::members(w4a16_gemm::parse(text), codegen::find_architecture(architecture));
  } catch (const Failure& failure) {
    EXPECT_EQ(failure.status(), Status::unsupported) << failure.what();
    return {};
  }
}

TEST(Members, OfMostDescriptorsAreTheCanonicalText) {
  const auto& hopper = codegen::find_architecture("sm_90a");
  for (const Operator* op : operators()) {
    const std::string text(op->name());
    if (text == "w4a16_gemm" || text == "w8a8_gemm") continue;  // sets
    EXPECT_THAT(op->members(text, hopper), ElementsAre(op->canonical(text)));
    EXPECT_EQ(op->choice(text, hopper), nullptr);
  }
  const std::string explicit_tiles = "w4a16_gemm:tile_n=256,tile_m=16,format=awq";
  EXPECT_THAT(members_of(explicit_tiles, "sm_90a"), ElementsAre("w4a16_gemm:format=awq,tile_m=16,tile_n=256"));
  EXPECT_EQ(find_operator(explicit_tiles).choice(explicit_tiles, hopper), nullptr);
}

// Each member is a kernel of its own, which differs from the set in its tiles (and its family) alone.
TEST(Members, AreKernelsInAscendingOrderWithTextsOfTheirOwn) {
  for (const char* text : kSets) {
    const W4a16Gemm set = w4a16_gemm::parse(text);
    int architectures = 0;
    for (const char* architecture : kArchitectures) {
      SCOPED_TRACE(std::string(text) + " for " + architecture);
      const std::vector<W4a16Gemm> members = served_members(text, architecture);
      architectures += members.empty() ? 0 : 1;
      EXPECT_LE(members.size(), architecture == std::string("sm_90a") ? 14u : 7u);
      for (const W4a16Gemm& member : members) {
        EXPECT_FALSE(member.is_set());
        EXPECT_EQ(find_operator(text).canonical(member.text()), member.text());
        EXPECT_EQ(w4a16_gemm::parse(member.text()), member);
        EXPECT_NO_THROW(w4a16_gemm::plan_block(member, codegen::find_architecture(architecture)));
        W4a16Gemm without_tiles = member;
        without_tiles.tile_m = set.tile_m;
        without_tiles.tile_n = set.tile_n;
        EXPECT_EQ(without_tiles, set);
        EXPECT_TRUE(set.tile_m == 0 || member.tile_m == set.tile_m);
        EXPECT_TRUE(set.tile_n == 0 || member.tile_n == set.tile_n);
      }
      const auto tile = [](const W4a16Gemm& member) { return std::pair(member.tile_m, member.tile_n); };
      EXPECT_TRUE(std::is_sorted(members.begin(), members.end(),
                                 [&](const W4a16Gemm& a, const W4a16Gemm& b) { return tile(a) < tile(b); }));
      EXPECT_EQ(std::adjacent_find(members.begin(), members.end()), members.end());
      EXPECT_EQ(served_members(text, architecture), members) << "the list is pure";
    }
    EXPECT_GT(architectures, 0) << text;
  }
}

TEST(Members, AreFewWhereFewTilesHaveKernels) {
  EXPECT_THAT(members_of("w4a16_gemm", "sm_75"),
              ElementsAre("w4a16_gemm:tile_m=8,tile_n=256", "w4a16_gemm:tile_m=16,tile_n=256",
                          "w4a16_gemm:tile_m=32,tile_n=256", "w4a16_gemm:tile_m=64,tile_n=256"));
  EXPECT_EQ(members_of("w4a16_gemm:format=awq", "sm_80").size(), 7u);
  EXPECT_EQ(members_of("w4a16_gemm:bits=8", "sm_90a").size(), 7u);
  EXPECT_EQ(members_of("w4a16_gemm", "sm_90a").size(), 14u);
  EXPECT_EQ(members_of("w4a16_gemm:format=awq", "sm_90a").size(), 11u);
  EXPECT_EQ(members_of("w4a16_gemm:format=awq,function=silu_gate", "sm_90a").size(), 10u);
  EXPECT_THAT(members_of("w4a16_gemm:format=awq,tile_m=32", "sm_90a"),
              ElementsAre("w4a16_gemm:format=awq,tile_m=32,tile_n=256"));
  EXPECT_THAT(members_of("w4a16_gemm:tile_n=64", "sm_90a"),
              ElementsAre("w4a16_gemm:tile_m=8,tile_n=64", "w4a16_gemm:tile_m=16,tile_n=64"));
  EXPECT_THAT(members_of("w4a16_gemm:family=sm90", "sm_90a"), Each(HasSubstr("family=sm90")));
  EXPECT_THAT(members_of("w4a16_gemm:family=sm90_persistent", "sm_90a"),
              ElementsAre("w4a16_gemm:tile_m=64,tile_n=256,family=sm90_persistent",
                          "w4a16_gemm:tile_m=80,tile_n=256,family=sm90_persistent",
                          "w4a16_gemm:tile_m=144,tile_n=256,family=sm90_persistent",
                          "w4a16_gemm:tile_m=256,tile_n=256,family=sm90_persistent"));
}

TEST(Members, AutoIsTheDefaultOfTheTiles) {
  EXPECT_EQ(find_operator("w4a16_gemm").canonical("w4a16_gemm:tile_m=auto,tile_n=auto"), "w4a16_gemm");
  EXPECT_EQ(find_operator("w4a16_gemm").canonical("w4a16_gemm:tile_m=auto,tile_n=64"), "w4a16_gemm:tile_n=64");
}

// One size of the tile is enough: the set has every tile with that size.
TEST(Members, OfOneSizeOfTheTileAreAllTilesWithIt) {
  EXPECT_THAT(members_of("w4a16_gemm:tile_n=160", "sm_90a"),
              ElementsAre("w4a16_gemm:tile_m=8,tile_n=160", "w4a16_gemm:tile_m=16,tile_n=160"));
  EXPECT_THAT(members_of("w4a16_gemm:tile_n=160,element=bf16", "sm_90a"), SizeIs(2));
  EXPECT_THAT(members_of("w4a16_gemm:tile_n=256", "sm_90a"), SizeIs(9));
  EXPECT_THAT(members_of("w4a16_gemm:tile_n=256", "sm_80"), SizeIs(4));
  EXPECT_THAT(members_of("w4a16_gemm:tile_m=16", "sm_90a"), SizeIs(7));
  EXPECT_THAT(members_of("w4a16_gemm:tile_m=16", "sm_80"), SizeIs(3));
  EXPECT_THAT(members_of("w4a16_gemm:tile_m=128", "sm_90a"), ElementsAre("w4a16_gemm:tile_m=128,tile_n=256"));
  EXPECT_THAT(members_of("w4a16_gemm:tile_m=16,batch_invariant=true", "sm_90a"),
              ElementsAre("w4a16_gemm:tile_m=16,tile_n=256,batch_invariant=true"));
}

TEST(Members, TilesThatNoMemberHasAreRefusedInOneSentence) {
  tests::expect_refused([] { w4a16_gemm::parse("w4a16_gemm:bits=8,tile_n=96"); },
                        "descriptor \"w4a16_gemm:bits=8,tile_n=96\": tile_n=96: no kernel family serves it (sm80: its "
                        "blocks have 256, 64 or 32 columns, not 96; sm90: there is no kernel of weights of 8 bits yet; "
                        "sm90_persistent: its tiles have 64 to 256 rows; sm75: its blocks have 256 columns, not 96); "
                        "ask for a smaller tile_n or tile_m, or tile_n=256");
  tests::expect_refused([] { w4a16_gemm::parse("w4a16_gemm:batch_invariant=true,family=sm90_persistent"); },
                        "descriptor \"w4a16_gemm:batch_invariant=true,family=sm90_persistent\": "
                        "family=sm90_persistent: batch_invariant=true needs the same order of k in every tile; ask for "
                        "tile_m=8, 16, 32 or 64, which compute any number of rows, and leave family out");
}

TEST(Members, AnArchitectureThatServesNoneIsNamed) {
  const auto sentence = [](const char* text, const char* architecture) -> std::string {
    try {
      members_of(text, architecture);
      return "accepted";
    } catch (const Failure& failure) {
      EXPECT_EQ(failure.status(), Status::unsupported);
      return failure.what();
    }
  };
  EXPECT_THAT(sentence("w4a16_gemm:element=bf16", "sm_75"),
              HasSubstr("w4a16_gemm:element=bf16 for sm_75: no kernel family runs there (sm80_w4a16_gemm: "));
  EXPECT_EQ(sentence("w4a16_gemm:tile_n=96", "sm_80"),
            "w4a16_gemm:tile_n=96 for sm_80: no kernel has tile_n=96 there; accepted: 32, 64, 256");
  EXPECT_EQ(sentence("w4a16_gemm:tile_n=64", "sm_75"),
            "w4a16_gemm:tile_n=64 for sm_75: no kernel has tile_n=64 there; accepted: 256");
  EXPECT_EQ(sentence("w4a16_gemm:tile_m=256", "sm_89"),
            "w4a16_gemm:tile_m=256 for sm_89: no kernel has tile_m=256 there; accepted: 8, 16, 32, 64");
  EXPECT_THAT(sentence("w4a16_gemm:tile_m=8,element=bf16", "sm_75"), HasSubstr("no kernel family runs there"));
}

TEST(Members, APlanBelongsToOneKernel) {
  const auto plan = [](const char* text, const char* architecture) {
    return find_operator(text).specialise(text, codegen::find_architecture(architecture));
  };
  tests::expect_refused([&] { plan("w4a16_gemm:tile_n=64", "sm_80"); },
                        "w4a16_gemm:tile_n=64 for sm_80: it names a set of 2 kernels, and a plan belongs to one of "
                        "them; give both tile_m and tile_n, for instance w4a16_gemm:tile_m=8,tile_n=64");
  EXPECT_EQ(plan("w4a16_gemm:tile_m=64", "sm_90a")->source().descriptor, "w4a16_gemm:tile_m=64,tile_n=256")
      << "the descriptor has a single member";
}

w4a16_gemm::GemmChoice choice_of(const char* text, const char* architecture = "sm_90a") {
  return w4a16_gemm::choice_of(w4a16_gemm::parse(text), codegen::find_architecture(architecture));
}

std::string chosen(const w4a16_gemm::GemmChoice& choice, const Arguments& arguments,
                   const runtime::DeviceFacts& device = h200()) {
  const W4a16Gemm& member = choice.member(choice.choose(&arguments, device));
  return std::to_string(member.tile_m) + "x" + std::to_string(member.tile_n);
}

TEST(GemmChoice, IsTheSuggestion) {
  for (const char* text : {"w4a16_gemm", "w4a16_gemm:format=awq", "w4a16_gemm:batch_invariant=true"}) {
    const auto choice = choice_of(text);
    for (const int m : {1, 16, 17, 64, 300, 4096}) {
      for (const auto& [n, k] : {std::pair{4096, 4096}, {28672, 8192}, {5120, 25600}}) {
        const auto arguments = arguments_of(m, n, k);
        const Numbers sizes = {{"m", m}, {"n", n}, {"k", k}};
        EXPECT_EQ(choice.member(choice.choose(&arguments, h200())).text(),
                  find_operator(text).suggest(text, sizes, h200()));
      }
    }
  }
}

TEST(GemmChoice, FollowsTheRows) {
  const auto choice = choice_of("w4a16_gemm:format=awq");
  EXPECT_EQ(chosen(choice, arguments_of(1, 8192, 8192)), "8x64");
  EXPECT_EQ(chosen(choice, arguments_of(16, 8192, 8192)), "16x64");
  EXPECT_EQ(chosen(choice, arguments_of(64, 8192, 8192)), "64x256");
  EXPECT_EQ(chosen(choice, arguments_of(512, 8192, 8192)), "256x256");
  EXPECT_EQ(chosen(choice, arguments_of(4096, 8192, 8192)), "256x256");
  const auto untimed = choice_of("w4a16_gemm:batch_invariant=true", "sm_80");
  EXPECT_EQ(chosen(untimed, arguments_of(1, 8192, 8192)), "8x256");
  EXPECT_EQ(chosen(untimed, arguments_of(17, 8192, 8192)), "32x256");
  EXPECT_EQ(chosen(untimed, arguments_of(5000, 8192, 8192)), "64x256");
}

// A member that does not serve the arguments is never chosen while another one serves them.
TEST(GemmChoice, IsAMemberThatServesTheArguments) {
  const auto choice = choice_of("w4a16_gemm");
  auto arguments = arguments_of(1, 8192, 8192);
  arguments.decomposition = CUBIT_W4A16_STREAM_K;
  EXPECT_EQ(chosen(choice, arguments), "8x256") << "narrow blocks have one tile each";
  arguments.decomposition = CUBIT_W4A16_SPLIT_K;
  arguments.splits = 3;
  EXPECT_NE(chosen(choice, arguments), "8x224") << "a block of 224 columns has all of k";
  arguments = arguments_of(64, 8192, 8192);
  arguments.activation_stride = 0;
  const W4a16Gemm& member = choice.member(choice.choose(&arguments, h200()));
  EXPECT_EQ(w4a16_gemm::plan_block(member, *h200().architecture).family, "sm80") << "no tensor map of one row";
  arguments = arguments_of(1, 65535 * 128, 128);
  EXPECT_GE(choice.member(choice.choose(&arguments, h200())).tile_n, 128) << "a grid has 65535 columns of blocks";
}

TEST(GemmChoice, OfSizesThatNobodyServesIsARefusal) {
  const auto choice = choice_of("w4a16_gemm");
  const auto refused = [&](Arguments arguments, const char* part) {
    tests::expect_refused_with([&] { choice.choose(&arguments, h200()); }, part);
  };
  refused(arguments_of(-1, 8192, 8192), "m = -1: it must be from 0");
  refused(arguments_of(1, 8196, 8192), "n = 8196: it must be a multiple of 8");
  refused(arguments_of(1, 8192, 100), "k = 100: it must be a multiple of 8");
  Arguments older = arguments_of(1, 8192, 8192);
  older.size = 8;
  refused(older, "cubit_w4a16_gemm_arguments.size = 8");
  tests::expect_refused_with([&] { choice.key(&older); }, "cubit_w4a16_gemm_arguments.size = 8");
  const auto nothing = arguments_of(0, 8192, 8192);
  EXPECT_LT(choice.choose(&nothing, h200()), choice.member_count());
}

TEST(GemmChoice, DependsOnNothingButItsKey) {
  const auto choice = choice_of("w4a16_gemm");
  const auto arguments = arguments_of(3, 4096, 8192);
  Arguments elsewhere = arguments;
  elsewhere.activations = address(0x7000);
  elsewhere.output_stride *= 2;
  elsewhere.activation_stride *= 2;
  EXPECT_EQ(choice.key(&arguments), choice.key(&elsewhere));
  std::set<ChoiceKey> keys = {choice.key(&arguments)};
  const auto differs = [&](void (*change)(Arguments&)) {
    Arguments changed = arguments;
    change(changed);
    EXPECT_TRUE(keys.insert(choice.key(&changed)).second);
  };
  differs([](Arguments& a) { a.m = 4; });
  differs([](Arguments& a) { a.n = 8192; });
  differs([](Arguments& a) { a.k = 4096; });
  differs([](Arguments& a) { a.decomposition = 2; });
  differs([](Arguments& a) { a.splits = 2; });
  differs([](Arguments& a) { a.activation_stride = 0; });
}

TEST(GemmChoice, SaysWhichLaunchesTakeAMember) {
  const auto choice = choice_of("w4a16_gemm");
  const std::vector<ServedSizes> served = choice.served();
  ASSERT_EQ(served.size(), 4u);
  for (const ServedSizes& one : served) {
    EXPECT_EQ(one.served.size(), choice.member_count());
    EXPECT_TRUE(std::any_of(one.served.begin(), one.served.end(), [](const std::string& text) {
      return text.starts_with("m=1 to ");
    })) << one.sizes;
  }
  EXPECT_EQ(served[1].sizes, "n=8192, k=8192");
  EXPECT_EQ(served[1].served.front(), "m=1 to 8") << "8 rows of 64 columns";
  EXPECT_THAT(served[1].served.back(), EndsWith(" to 8192")) << "256 rows";
}

struct NamedDevice {
  const char* architecture;
  int multiprocessors;
  std::int64_t memory_gigabytes;
  double most_lost;  ///< with up to 64 rows of large layers

  runtime::DeviceFacts facts() const {
    runtime::DeviceFacts device = made_up_device(architecture, multiprocessors);
    device.memory_bytes_per_second = memory_gigabytes * 1'000'000'000;
    return device;
  }
};

double modelled(const w4a16_gemm::BlockPlan& block, const Arguments& sizes, const runtime::DeviceFacts& device) {
  return gemm::modelled_microseconds(block, w4a16_gemm::choose_schedule(block, sizes, device), device,
                                     device.memory_bytes_per_second);
}

/// How much longer launches of the set take than launches of the best of all tiles, by the model.
class Losses {
 public:
  Losses(const char* text, const runtime::DeviceFacts& device)
      : device_(device), choice_(w4a16_gemm::choice_of(w4a16_gemm::parse(text), *device.architecture)) {
    W4a16Gemm kernel = w4a16_gemm::parse(text);
    for (std::size_t i = 0; i < choice_.member_count(); ++i)
      members_.push_back(w4a16_gemm::plan_block(choice_.member(i), *device.architecture));
    for (const int rows : w4a16_gemm::kTileRows) {
      for (const int columns : w4a16_gemm::kTileColumns) {
        kernel.tile_m = rows;
        kernel.tile_n = columns;
        if (w4a16_gemm::is_served(kernel) && serves(w4a16_gemm::families(), kernel, *device.architecture))
          all_.push_back(w4a16_gemm::plan_block(kernel, *device.architecture));
      }
    }
  }
  double of(int m, int n, int k) const {
    const auto sizes = arguments_of(m, n, k);
    double best = std::numeric_limits<double>::infinity();
    for (const auto& block : all_) best = std::min(best, modelled(block, sizes, device_));
    return modelled(members_[choice_.choose_by_sizes(w4a16_gemm::problem_of({}, sizes), device_)], sizes, device_) /
               best -
           1;
  }

 private:
  runtime::DeviceFacts device_;
  w4a16_gemm::GemmChoice choice_;
  std::vector<w4a16_gemm::BlockPlan> members_;
  std::vector<w4a16_gemm::BlockPlan> all_;
};

// What the lists of members.cpp leave out: bench/member_study.cpp with more descriptors.
TEST(Members, LoseLittleAgainstAllTilesByTheModel) {
  constexpr NamedDevice kDevices[] = {{"sm_90a", 132, 4917, 0.04}, {"sm_90a", 132, 3352, 0.101},
                                      {"sm_80", 108, 1555, 0.01},  {"sm_89", 142, 864, 0.01},
                                      {"sm_120", 170, 1792, 0.01}, {"sm_100a", 148, 8000, 0.06}};
  constexpr int kShapes[][2] = {{4096, 4096},  {8192, 8192},  {28672, 8192}, {8192, 28672}, {6144, 4096},
                                {28672, 4096}, {4096, 14336}, {10240, 8192}, {57344, 8192}, {10240, 5120},
                                {5120, 8192},  {51200, 5120}, {5120, 25600}};
  constexpr int kRows[] = {1, 2, 4, 8, 16, 17, 32, 33, 64, 65, 128, 129, 256, 257, 512, 1024, 2048, 4096, 8192};
  constexpr std::int64_t kLargeLayer = 45'000'000;  // weights
  for (const char* text :
       {"w4a16_gemm", "w4a16_gemm:format=awq", "w4a16_gemm:function=silu_gate", "w4a16_gemm:bits=8"}) {
    for (const NamedDevice& device : kDevices) {
      const Losses losses(text, device.facts());
      int cells = 0;
      int within = 0;
      for (const auto& [n, k] : kShapes) {
        for (const int m : kRows) {
          const double lost = losses.of(m, n, k);
          const bool is_large_decode = m <= 64 && std::int64_t{n} * k >= kLargeLayer;
          EXPECT_LE(lost, is_large_decode ? device.most_lost : 0.2)
              << text << " on " << device.architecture << ": " << m << ", " << n << ", " << k;
          ++cells;
          within += lost <= 0.02 ? 1 : 0;
        }
      }
      EXPECT_GE(within, cells * 93 / 100) << text << " on " << device.architecture;
    }
  }
}

}  // namespace
}  // namespace cubit::ops
