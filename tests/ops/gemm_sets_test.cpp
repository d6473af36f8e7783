// Sets of kernels of ops/gemm for a made-up operator: members, the choice among them, and the operator itself.
#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <optional>
#include <span>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "ops/gemm/operator.hpp"
#include "ops/gemm/sets/suggest.hpp"
#include "ops/gemm/sm80/sm80.hpp"
#include "tests/ops/toy_gemm.hpp"

namespace cubit::ops::gemm {
namespace {

using tests::address;
using tests::h200;

template <class Call>
std::string refusal(const Call& call) {
  try {
    call();
  } catch (const Failure& failure) {
    return failure.what();
  }
  return "accepted";
}

/// The toy's descriptor. Its text is "toy:16x256": tile_m and tile_n.
struct Toy {
  int tile_m = 0;
  int tile_n = 0;
  std::string family = std::string(kAnyFamily);
  bool is_timed = true;

  bool is_set() const { return tile_m == 0 || tile_n == 0; }
  std::string text() const { return fmt::format("toy:{}x{}", tile_m, tile_n); }
};

struct ToyArguments {
  std::size_t size = sizeof(ToyArguments);
  const void* activations = address(0x1000);
  const void* weights = address(0x3000);
  void* output = address(0x2000);
  std::int32_t m = 0;
  std::int32_t n = 0;
  std::int32_t k = 0;
  std::int32_t reserved = 0;
};

GemmDescriptor describe(const Toy& descriptor) {
  GemmDescriptor result = toy::describe(descriptor.tile_m);
  result.tile_n = descriptor.tile_n;
  result.text = descriptor.text();
  return result;
}

const Translation<Toy, ToyArguments> kTranslation = {
    .struct_name = "toy_arguments",
    .describe = describe,
    .pointer_checks = [](const Toy&) { return PointerChecks(); },
    .problem = [](const Toy&,
                  const ToyArguments& arguments) { return toy::problem_of(arguments.m, arguments.n, arguments.k); },
    .check_tensors = [](const Toy&, const ToyArguments&) {},
    .weights = [](const Toy&, const BlockPlan&,
                  const ToyArguments& arguments) { return WeightTensors{.words = arguments.weights}; }};

class ToyFamily final : public GemmFamily<Toy> {
 public:
  std::string_view name() const override { return "sm80"; }
  std::string_view accepted() const override { return "sm_80 and later"; }
  std::optional<BrokenRule> why_not_descriptor(const Toy& descriptor) const override {
    if (descriptor.tile_n != 256) return BrokenRule{"its blocks have 256 columns", "leave tile_n out"};
    return sm80::why_no_tile({descriptor.tile_m, descriptor.tile_n});
  }
  std::optional<std::string> why_not(const Toy& descriptor, const codegen::Architecture& architecture) const override {
    if (auto broken = why_not_descriptor(descriptor)) return std::move(broken->rule);
    return sm80::why_not(8, codegen::MmaType::int8, architecture);
  }
  BlockPlan block_plan(const Toy& descriptor, const codegen::Architecture& architecture) const override {
    return sm80::make_plan(describe(descriptor), toy::mma_sync_weights(descriptor.tile_m), architecture).block;
  }
  std::shared_ptr<const Specialisation> plan(const Toy& descriptor, const codegen::Architecture& architecture,
                                             PlanReport report) const override {
    return make_specialisation(
        kTranslation, descriptor,
        sm80::make_plan(describe(descriptor), toy::mma_sync_weights(descriptor.tile_m), architecture), {},
        std::move(report), architecture);
  }
};

const FamilyList<GemmFamily<Toy>>& families() {
  static const ToyFamily kFamily;
  static const std::array<const GemmFamily<Toy>*, 1> kAll = {&kFamily};
  static const FamilyList<GemmFamily<Toy>> kList = {"toy", "sm_80 and later", kAll};
  return kList;
}

void check_rules(const Toy& kernel, std::string_view text) {
  if (const auto broken = families().families.front()->why_not_descriptor(kernel))
    throw Failure(Status::invalid_argument, std::string(text), broken->rule, broken->remedy);
}

bool is_served(const Toy& kernel) { return !families().families.front()->why_not_descriptor(kernel); }

constexpr std::array kRows = {16, 32, 64, 80};
constexpr std::array kColumns = {256, 64};
constexpr Tile kTimed[] = {{16, 256}, {32, 256}, {64, 256}};
constexpr Tile kUntimed[] = {{16, 256}, {64, 256}};

const SetPolicy<Toy> kPolicy = {
    .families = families,
    .check_rules = check_rules,
    .is_served = is_served,
    .tile_rows = kRows,
    .tile_columns = kColumns,
    .most_narrow_rows = 16,
    .is_timed = [](const Toy& set) { return set.is_timed; },
    .timed_tiles = [](const Toy&, const codegen::Architecture&) { return std::span<const Tile>(kTimed); },
    .untimed_tiles = kUntimed};

Toy parse(std::string_view text) {
  if (text == "toy:untimed") return {.is_timed = false};
  Toy descriptor;
  std::istringstream numbers{std::string(text)};
  numbers.ignore(std::string_view("toy:").size()) >> descriptor.tile_m;
  numbers.ignore(1) >> descriptor.tile_n;
  return descriptor;
}

class ToyOperator final : public GemmOperator<Toy, ToyArguments> {
 public:
  ToyOperator() : GemmOperator(kPolicy, kTranslation, parse) {}
  std::string_view name() const override { return "toy"; }
  std::string_view summary() const override { return "a toy"; }
  std::vector<FieldHelp> fields() const override { return {}; }
  const ArgumentTable& arguments() const override {
    static const ArgumentTable kTable;
    return kTable;
  }
};

using Texts = std::vector<std::string>;

TEST(GemmSets, HaveTheTilesThatTheOperatorNames) {
  const ToyOperator toy;
  const auto& architecture = *h200().architecture;
  EXPECT_EQ(toy.members("toy:0x0", architecture), (Texts{"toy:16x256", "toy:32x256", "toy:64x256"}));
  EXPECT_EQ(toy.members("toy:untimed", architecture), (Texts{"toy:16x256", "toy:64x256"}));
  EXPECT_EQ(toy.members("toy:32x0", architecture), (Texts{"toy:32x256"})) << "no tile of 64 columns has 32 rows";
  EXPECT_EQ(toy.choice("toy:32x0", architecture), nullptr);
  EXPECT_EQ(toy.specialise("toy:32x0", architecture)->source().descriptor, "toy:32x256");
}

TEST(GemmSets, RefuseWithTheRuleThatLeavesNoMember) {
  const ToyOperator toy;
  EXPECT_EQ(refusal([&] { toy.members("toy:80x0", *h200().architecture); }),
            "toy:80x0 for sm_90a: no kernel has tile_m=80 there; accepted: 16, 32, 64");
  EXPECT_NE(refusal([&] { toy.members("toy:0x0", codegen::find_architecture("sm_75")); }).find("it needs cp.async"),
            std::string::npos);
  EXPECT_EQ(refusal([&] { toy.specialise("toy:0x0", *h200().architecture); }),
            "toy:0x0 for sm_90a: it names a set of 3 kernels, and a plan belongs to one of them; give both tile_m and "
            "tile_n, for instance toy:16x256");
  EXPECT_EQ(why_no_members(kPolicy, Toy{.tile_m = 32}), std::nullopt);
  EXPECT_EQ(why_no_members(kPolicy, Toy{.tile_n = 64})->rule, "its blocks have 256 columns");
}

TEST(GemmSets, ChooseAMemberThatEveryWorkspaceServes) {
  const ToyOperator toy;
  const auto& architecture = *h200().architecture;
  const Texts members = toy.members("toy:0x0", architecture);
  const auto choice = toy.choice("toy:0x0", architecture);
  ToyArguments most{.m = 512, .n = 4096, .k = 4096};
  const std::size_t bytes = choice->workspace_bytes(&most, h200());
  std::size_t last = 0;
  for (const int rows : {1, 16, 17, 32, 33, 64, 65, 512}) {
    ToyArguments launch{.m = rows, .n = 4096, .k = 4096};
    const std::size_t member = choice->choose(&launch, h200());
    EXPECT_GE(member, last) << rows << " rows";
    last = member;
    const auto made = toy.specialise(members[member], architecture);
    EXPECT_NO_THROW(made->encode(&launch, address(0x100000), bytes, h200())) << rows << " rows";
  }
  EXPECT_EQ(last, members.size() - 1);
  ToyArguments odd{.m = 1, .n = 12, .k = 4096};
  EXPECT_NE(refusal([&] { choice->choose(&odd, h200()); }).find("n = 12"), std::string::npos);
  ASSERT_EQ(choice->served().size(), 4u);
  EXPECT_EQ(choice->served()[1].sizes, "n=8192, k=8192");
}

TEST(GemmSets, TakeTheSmallestTileThatHoldsAllRowsIfNobodyTimedThem) {
  const auto choice = ToyOperator().choice("toy:untimed", *h200().architecture);
  for (const auto& [rows, member] : {std::pair{1, 0u}, {16, 0u}, {17, 1u}, {64, 1u}, {1000, 1u}}) {
    ToyArguments launch{.m = rows, .n = 4096, .k = 4096};
    EXPECT_EQ(choice->choose(&launch, h200()), member) << rows << " rows";
  }
}

TEST(GemmSets, ReadTheSizesOfSuggestions) {
  const SuggestedSizes sizes = suggested_sizes({{"m", 1}, {"n", 2}, {"k", 3}}, "toy");
  EXPECT_EQ(sizes.m + 10 * sizes.n + 100 * sizes.k, 321);
  EXPECT_EQ(refusal([] {
              suggested_sizes({{"m", 1}, {"n", 2}}, "toy");
            }),
            "no size k: which tiles of toy are fastest depends on it; give m, n and k");
  EXPECT_EQ(refusal([] {
              suggested_sizes({{"rows", 1}}, "toy");
            }),
            "size rows: which tiles of toy are fastest does not depend on it; accepted: m, n, k");
}

}  // namespace
}  // namespace cubit::ops::gemm
