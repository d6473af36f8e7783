// Every operator on the CPU device, over a pairwise cover of its fields (CUBIT_FULL_COVER: over all combinations; of a
// range of numbers a choice, see descriptors.cpp). Of each kernel it proves, on small made-up problems (ragged lengths,
// an empty sequence, several splits, padded rows, hard data):
//
//   - it computes the double-precision reference within the operator's tolerance, and touches nothing around its
//   tensors;
//   - it breaks no rule of memory that the checker knows: CUBIT_WATCH_MEMORY;
//   - each shared-memory access that the plan has proved is executed, and meets the banks as the proof says.
//
// Architectures: each descriptor runs on the first of kArchitectures of each kernel family that takes it; the rest of
// them run every twelfth descriptor, and every fifth of those that name a family, which is the same on all of them. The
// list is cut in shards, so that ctest runs several at once; CUBIT_TEST_SAMPLE leaves a part of the list. `make test`
// executes one kernel of each family instead. Skipped where there is no NVRTC.
#include <cubit/gqa_decode.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <sstream>
#include <utility>

#include "tests/cover/cover_list.hpp"
#include "tests/cover/descriptors.hpp"
#include "tests/gpu/gpu_case.hpp"
#include "tests/support/cpu_engine.hpp"
#include "tests/support/sample.hpp"
#include "tools/kernels/counters.hpp"

namespace cubit::tests {
namespace {

using OrderedJson = nlohmann::ordered_json;

constexpr const char* kArchitectures[] = {"sm_80", "sm_90a", "sm_120", "sm_75", "sm_100a"};
constexpr std::size_t kSpread = 12;  ///< of the architectures whose families are covered: each takes one in so many
constexpr std::size_t kSpreadOfNamed = 5;  ///< the same of descriptors that name a family
constexpr bool kFull = CUBIT_FULL_COVER != 0;
constexpr int kShards = kFull ? 200 : 4;
constexpr std::size_t kMostKernels = 800;  ///< of the pairwise cover

std::string operator_of(const std::string& descriptor) { return descriptor.substr(0, descriptor.find(':')); }

/// Columns that are multiples of as little as the descriptor allows; k's with a last group that is shorter, and with
/// full groups; rows in two tiles, k in two splits.
std::vector<Problem::Numbers> gemm_cases_of(const std::string& descriptor, double pattern, bool can_share_k) {
  const auto has = [&](const char* text) { return descriptor.find(text) != std::string::npos; };
  const bool is_aligned = has("format=awq") && !has("alignment=4");
  const double columns = (is_aligned ? 32 : 8) * (has("silu_gate") ? 2 : 1);
  const double group = has("group_size=all") || has("format=dense") ? 8
                       : has("group_size=32")                       ? 32
                       : has("group_size=64")                       ? 64
                       : has("group_size=16")                       ? 16
                                                                    : 128;
  const double short_group = std::max(8., group - 24);
  const std::size_t tile = descriptor.find("tile_m=");
  const double tile_m = tile == std::string::npos ? 16 : std::stoi(descriptor.substr(tile + 7));
  const bool is_persistent =
      tile_m > 64 || has("sm90_persistent") || has("format=dense");  // stream-K over an odd number of tiles
  // Without stream-K: tiles that fill the device, whose parts are computed one after another.
  const bool takes_turns = has("batch_invariant=true");
  const bool has_few_columns = !has("tile_n=256");  // no stream-K
  const double full_tiles = is_persistent ? 2 : !takes_turns ? 1 : tile_m > 16 ? 3 : 7;
  return {{{"m", tile_m + 3},
           {"n", 256 + columns},
           {"k", 256 + short_group},
           {"pattern", pattern},
           {"decomposition", !can_share_k                ? 0
                             : has("atomic_splits=true") ? 4
                                                         : 2},
           {"splits", can_share_k ? 2 : 0}},
          {{"m", full_tiles * tile_m + 1},
           {"n", is_persistent ? 256 - columns : 256 + columns},
           {"k", 256 + group},
           {"pattern", pattern},
           {"decomposition", takes_turns || has_few_columns ? 0 : 3}},
          {{"m", 1}, {"n", columns}, {"k", 8}, {"decomposition", 1}}};
}

bool has(const std::string& descriptor, const char* field) { return descriptor.find(field) != std::string::npos; }

/// Caps that matter; windows of one token, of a few tiles and longer than every sequence, with kept tokens before them
/// or none. In the first case, which is split, they are so long that several blocks have a part.
void add_roles(std::vector<Problem::Numbers>& cases, const std::string& descriptor, std::size_t index) {
  static constexpr double kCaps[] = {2, 30, 0.5, 1000};
  static constexpr double kWindows[] = {100, 1, 33, 1000, 16};
  static constexpr double kLongWindows[] = {200, 1000, 150};
  static constexpr double kKept[] = {0, 5, 40};
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const std::size_t turn = index + 2 * i;
    if (has(descriptor, "soft_cap=true")) cases[i].emplace_back("soft_cap", kCaps[turn % std::size(kCaps)]);
    if (!has(descriptor, "window=true")) continue;
    const double window = i == 0 ? kLongWindows[turn % std::size(kLongWindows)] : kWindows[turn % std::size(kWindows)];
    cases[i].emplace_back("window", window);
    cases[i].emplace_back("kept_tokens", kKept[turn % std::size(kKept)]);
  }
}

/// Small cases that together reach every part of a kernel: gqa_decode's merge through the workspace, and where the
/// family balances splits also several segments per block. Tokens and bytes are multiples of nothing that a
/// kernel has tiles of.
std::vector<Problem::Numbers> cases_of(const std::string& descriptor, std::size_t index, bool deals_shares,
                                       bool can_share_k) {
  const auto pattern = static_cast<double>(index % 6);
  static const Problem::Numbers kRagged = {{"batch", 3},  {"context", 487}, {"kv_heads", 2},
                                           {"ragged", 1}, {"lse", 1},       {"splits", 3}};
  static const Problem::Numbers kEqual = {{"batch", 2}, {"context", 263}, {"kv_heads", 2}};
  static const Problem::Numbers kSegments = {{"batch", 17}, {"context", 203}, {"kv_heads", 1}, {"ragged", 1}};
  // Sequences that end beyond the cache, empty ones, tokens that go nowhere: see the operators' random problems.
  static const Problem::Numbers kRows = {{"batch", 5}, {"context", 41}, {"kv_heads", 3}, {"ragged", 1}};
  static const Problem::Numbers kScattered = {{"batch", 3}, {"context", 50}, {"kv_heads", 2}, {"scattered", 1}};
  if (operator_of(descriptor).starts_with("stream_")) return {{{"bytes", 50000 * 16 + 48}}};
  if (operator_of(descriptor) == "kv_append" || operator_of(descriptor) == "kv_gather") {
    std::vector<Problem::Numbers> cases = {kRows};
    if (operator_of(descriptor) == "kv_append") cases.push_back(kScattered);
    const bool rotates = descriptor.find("rotary=") != std::string::npos;
    for (auto& numbers : cases) numbers.insert(numbers.end(), {{"tokens", 9}, {"pattern", pattern}});
    if (descriptor.find("cache=paged") != std::string::npos) {
      static constexpr double kPageSizes[] = {1, 16, 7, 256, 33};
      for (auto& numbers : cases) {
        numbers.emplace_back("page_size", kPageSizes[index % std::size(kPageSizes)]);
        numbers.emplace_back("hnd", static_cast<double>(index / 2 % 2));
      }
    }
    if (rotates) cases.back().emplace_back("rotary_dim", 16 * (1 + static_cast<double>(index % 4)));
    cases.push_back({{"batch", 1}, {"tokens", 17}, {"context", 17}, {"kv_heads", 1}, {"pattern", 3}});
    // So many rows that lanes take several heads of a token, and other patterns than above.
    if (operator_of(descriptor) == "kv_append") {
      cases.push_back({{"batch", 1},
                       {"tokens", 201},
                       {"context", 201},
                       {"kv_heads", 8},
                       {"pattern", static_cast<double>((index + 2) % 6)}});
    }
    return cases;
  }
  if (operator_of(descriptor) == "w4a16_gemm") return gemm_cases_of(descriptor, pattern, can_share_k);
  if (operator_of(descriptor) == "convert_layout") {
    // A group of 8 rows that is not full, unless the tiles of a layout need whole groups. Several blocks of threads.
    const bool has_tiles =
        descriptor.find("col4_") != std::string::npos || descriptor.find("_2r_") != std::string::npos;
    return {{{"rows", has_tiles ? 32 : 13}, {"columns", 96}},
            {{"rows", has_tiles ? 96 : 1}, {"columns", 4128}},
            {{"rows", 64}, {"columns", 32}}};
  }
  if (operator_of(descriptor) == "dequantize") {
    // One row per thread, with and without hard values; four rows per thread, the last group not full.
    return {{{"rows", 9}, {"columns", 96}, {"special", 1}},
            {{"rows", 3}, {"columns", 4128}},
            {{"rows", 67}, {"columns", 2048}, {"special", 1}}};
  }
  if (operator_of(descriptor) == "weight_sums") {
    // Rows of fewer bytes than a warp loads at once; the largest sums; a last block with rows that do not exist.
    return {{{"n", 9}, {"k", 16}}, {{"n", 1}, {"k", 131056}, {"pattern", 1}}, {{"n", 67}, {"k", 1040}}};
  }
  if (operator_of(descriptor) == "w8a8_gemm") {
    // Rows in two tiles, k in two splits that are no whole stages; balanced shares; the smallest sizes.
    const double tile_m = std::max(16, std::stoi(descriptor.substr(descriptor.find("tile_m=") + 7)));
    const double columns = has(descriptor, "silu_gate") ? 16 : 8;
    const auto kind = static_cast<double>(index % 4);
    return {{{"m", tile_m + 3},
             {"n", 256 + columns},
             {"k", 272},
             {"pattern", kind},
             {"decomposition", has(descriptor, "atomic_splits=true") ? 4 : 2},
             {"splits", 2}},
            {{"m", tile_m + 1}, {"n", 256 + columns}, {"k", 400}, {"pattern", kind}, {"decomposition", 3}},
            {{"m", 1}, {"n", columns}, {"k", 16}, {"decomposition", 1}}};
  }
  if (operator_of(descriptor) == "norm_quantize" || operator_of(descriptor) == "gate_quantize") {
    // Blocks as for quantize. Pattern 5 has large numbers, whose sums and products may be infinite.
    return {{{"rows", 9}, {"columns", 96}, {"pattern", pattern}, {"special", 1}},
            {{"rows", 7}, {"columns", 1056}, {"pattern", 5}},
            {{"rows", 2}, {"columns", index % 2 == 0 ? 32768 : 4128}, {"pattern", pattern}}};
  }
  if (operator_of(descriptor) == "quantize") {
    // Rows that share a block, the last block not full; rows of several warps and vectors; the longest rows.
    return {{{"rows", 9}, {"columns", 96}, {"pattern", pattern}, {"special", 1}},
            {{"rows", 7}, {"columns", 1056}, {"pattern", 3}, {"special", 1}},
            {{"rows", 5}, {"columns", 36896}, {"pattern", pattern}},
            {{"rows", 1}, {"columns", index % 2 == 0 ? 65536 : 4128}, {"pattern", 3}, {"special", 1}}};
  }
  if (operator_of(descriptor) == "w4_quantize") {
    // Blocks, warps, steps and groups that are not full.
    return {{{"n", 88}, {"k", 384}, {"pattern", pattern}},
            {{"n", 24}, {"k", 400}, {"pattern", pattern}},
            {{"n", 8}, {"k", 648}, {"errors", 0}}};
  }
  if (operator_of(descriptor) == "merge") {
    // Parts in steps of which the last is not full, in one whole step, and one part.
    return {{{"parts", 7}, {"rows", 11}, {"heads", 3}, {"lse", 1}, {"pattern", pattern}},
            {{"parts", 4}, {"rows", 5}, {"heads", 2}, {"pattern", 1}, {"lse", 1}},
            {{"parts", 1}, {"rows", 3}, {"heads", 1}}};
  }
  if (operator_of(descriptor) != "gqa_decode") throw std::runtime_error("cases_of() has no case for " + descriptor);
  std::vector<Problem::Numbers> cases = {kRagged, kEqual};
  // A window and ALiBi leave a sequence few tokens: no constant rows, see below.
  const bool few = has(descriptor, "window=true") || has(descriptor, "alibi=true") || has(descriptor, "score=");
  // Where values have a format of their own, none in any short sequence, nor outlier channels among few tokens: their
  // rounding alone is up to 3.2e-3 with one format as with two.
  const bool is_mixed = has(descriptor, "value");
  const bool is_tree = has(descriptor, "mask=tree");  // of which a token sees few, and a short sequence has no other
  const bool plain = (pattern == 2 && (few || is_mixed || is_tree)) || (pattern == 1 && few && is_mixed);
  for (auto& numbers : cases) numbers.emplace_back("pattern", plain ? 0 : pattern);
  if (descriptor.find("cache=paged") != std::string::npos) {
    static constexpr double kPageSizes[] = {16, 1, 256, 7, 24};
    for (auto& numbers : cases) numbers.emplace_back("page_size", kPageSizes[index % std::size(kPageSizes)]);
  }
  // Of normal data: in sequences of a few constant rows, values that cancel to a tenth of their parts show the rounding
  // of fp16 weights, up to 3.7e-3 (docs/operators/gqa_decode.md, "Accuracy").
  if (deals_shares) cases.push_back(kSegments);
  add_roles(cases, descriptor, index);
  return cases;
}

struct Item {
  std::size_t index;
  std::string descriptor;
  std::string architecture;
  OrderedJson plan;

  /// Of gqa_decode: whether blocks take balanced splits of all sequences.
  bool deals_shares() const { return decided("split_kv").starts_with("a balanced share"); }
  /// Of w4a16_gemm: whether blocks can share k.
  bool can_share_k() const { return decided("decomposition") != "all of k in a block"; }

 private:
  /// Empty where the plan has no such decision.
  std::string decided(std::string_view name) const {
    for (const OrderedJson& decision : plan.at("decisions"))
      if (decision.at("name") == name) return decision.at("value");
    return "";
  }
};

const Cover& cover() {
  static const Cover instance = [] {
    cover_score();  // which descriptors of the list name: every process adds it
    return remembered_cover(CUBIT_COVER_LIST, kFull ? all_descriptors : pairwise_descriptors);
  }();
  return instance;
}

/// None where the descriptor names a family that the architecture cannot run.
std::optional<OrderedJson> plan_of(const std::string& descriptor, const std::string& architecture) {
  try {
    return OrderedJson::parse(explain(descriptor, architecture));
  } catch (const Error& error) {
    if (error.code() != CUBIT_UNSUPPORTED) throw;
    return std::nullopt;
  }
}

/// The kernels of one descriptor.
std::vector<Item> items_of(std::size_t index) {
  const std::string& descriptor = cover().descriptors[index];
  std::vector<Item> items;
  std::set<std::string> families;
  const std::size_t spread = has(descriptor, "family=") ? kSpreadOfNamed : kSpread;
  for (std::size_t i = 0; i < std::size(kArchitectures); ++i) {
    std::optional<OrderedJson> plan = plan_of(descriptor, kArchitectures[i]);
    if (!plan) continue;
    if (families.insert(plan->at("family")).second || index % spread == i)
      items.push_back({index, descriptor, kArchitectures[i], std::move(*plan)});
  }
  return items;
}

/// The alignment that the descriptor gives; 1, so that rows are not padded, if it leaves the alignment to them.
std::size_t alignment_of(const std::string& descriptor) {
  const std::size_t field = descriptor.find("alignment=");
  return field == std::string::npos ? 1 : std::stoul(descriptor.substr(field + 10));
}

/// The same data, which no alignment changes, for a descriptor whose dense rows may be launched. The reference does not
/// compute a user's score modification, which is ALiBi here: see cover_score().
Problem problem_of(const Item& item, const Problem::Numbers& numbers) {
  std::string text = item.descriptor;
  if (operator_of(text) == "gqa_decode") {
    // The last fields of the text, and the only ones that the data does not depend on.
    const std::size_t field = std::min(text.find("alignment="), text.find("family="));
    if (field != std::string::npos) text.resize(field - 1);
    if (has(text, "score=")) {
      text.replace(text.find(cover_score()), cover_score().size(), "none");
      if (!has(text, "alibi=true")) text += ",alibi=true";
    }
    text = canonical(text + (text.find(':') == std::string::npos ? ":" : ",") + "alignment=4");
  }
  return Problem::random(text, numbers, item.index);
}

/// The arguments of a case; gqa_decode's caches with rows that are padded, with NaN, to the descriptor's alignment.
class PaddedCaches {
 public:
  PaddedCaches(const Device& device, const Problem& problem, const std::string& descriptor, const void* dense)
      : dense_(dense) {
    if (operator_of(descriptor) != "gqa_decode") return;
    const auto inputs = problem.inputs();
    cubit_gqa_decode_arguments& padded = padded_.emplace(*static_cast<const cubit_gqa_decode_arguments*>(dense));
    padded.key = pad(device, inputs[1], alignment_of(descriptor), padded.key_strides);
    padded.value = pad(device, inputs[2], alignment_of(descriptor), padded.value_strides);
    if (!has(descriptor, "score=") || has(descriptor, "alibi=true")) return;
    padded.score_parameters = std::exchange(padded.alibi_slopes, nullptr);
  }
  const void* arguments() const { return padded_ ? &*padded_ : dense_; }

 private:
  const void* pad(const Device& device, const cubit_tensor& cache, std::size_t alignment, std::int64_t* strides) {
    const std::size_t element = type_bytes(cache.type);
    const std::size_t row = element * static_cast<std::size_t>(cache.shape[3]);
    const std::size_t pitch = (row + alignment - 1) / alignment * alignment;
    const std::size_t rows = tensor_bytes(cache) / row;
    std::vector<char> host(rows * pitch, '\xff');
    for (std::size_t i = 0; i < rows; ++i)
      std::memcpy(host.data() + i * pitch, static_cast<const char*>(cache.data) + i * row, row);
    buffers_.push_back(std::make_unique<GuardedBuffer>(device, host.size(), 0));
    device.upload(buffers_.back()->data(), host.data(), host.size());
    strides[2] = static_cast<std::int64_t>(pitch / element);
    strides[1] = strides[2] * cache.shape[2];
    strides[0] = strides[1] * cache.shape[1];
    return buffers_.back()->data();
  }

  const void* dense_;
  std::vector<std::unique_ptr<GuardedBuffer>> buffers_;
  std::optional<cubit_gqa_decode_arguments> padded_;
};

bool run_case(const Device& device, const Kernel& kernel, const Item& item, const Problem::Numbers& numbers) {
  const Problem problem = problem_of(item, numbers);
  const DeviceCase on_device(device, problem);
  const PaddedCaches padded(device, problem, item.descriptor, on_device.arguments());
  const bool is_split = launch_once(device, kernel, padded.arguments());
  on_device.expect_guards_intact();
  const auto result = on_device.compare(problem);
  EXPECT_LE(result.error, result.tolerance) << result.worst;
  return is_split;
}

void expect_proofs_hold(const Item& item, const Device& device) {
  for (const OrderedJson& row : tools::compare_with_plan(item.plan, OrderedJson::parse(device.counters()))) {
    EXPECT_GT(row.at("counted_requests"), 0) << row.at("access") << " was never executed";
    EXPECT_TRUE(row.at("agrees")) << row.dump();
  }
}

void expect_good(const Item& item) {
  const Device device("cpu:" + item.architecture);
  device.watch(CUBIT_WATCH_MEMORY | CUBIT_WATCH_COUNTERS);
  const Kernel kernel = engine().get(item.descriptor, "cpu:" + item.architecture);
  bool is_split = false;
  for (const Problem::Numbers& numbers : cases_of(item.descriptor, item.index, item.deals_shares(), item.can_share_k()))
    is_split = run_case(device, kernel, item, numbers) || is_split;
  const std::string name = operator_of(item.descriptor);
  EXPECT_EQ(is_split, name == "gqa_decode" || name == "w8a8_gemm" || (name == "w4a16_gemm" && item.can_share_k()));
  expect_proofs_hold(item, device);
}

class CoverShard : public ::testing::TestWithParam<int> {};

TEST_P(CoverShard, ComputesTheReferenceByTheRulesAndAsProved) {
  if (!can_compile()) GTEST_SKIP() << "no NVRTC on this machine";
  for (std::size_t index = static_cast<std::size_t>(GetParam()); index < cover().descriptors.size(); index += kShards) {
    if (!in_sample(cover().descriptors[index])) continue;
    for (const Item& item : items_of(index)) {
      SCOPED_TRACE(item.descriptor + " for " + item.architecture);
      EXPECT_NO_THROW(expect_good(item));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Kernels, CoverShard, ::testing::Range(0, kShards));

/// The values of the operator's field `family` but for its default; empty if the operator has no such field.
std::vector<std::string> family_names(const OrderedJson& listed) {
  std::vector<std::string> names;
  for (const OrderedJson& field : listed.at("fields")) {
    if (field.at("name") != "family") continue;
    std::istringstream values(field.at("accepts").get<std::string>());
    for (std::string value; std::getline(values >> std::ws, value, ',');)
      if (field.at("default") != value) names.push_back(value);
  }
  return names;
}

/// The kernels that the descriptor names: none if it is refused, by its operator or for the architecture.
std::vector<std::string> members_if_legal(const std::string& descriptor, const std::string& architecture) {
  try {
    return OrderedJson::parse(members(descriptor, architecture));
  } catch (const Error& error) {
    if (error.code() != CUBIT_INVALID_ARGUMENT && error.code() != CUBIT_UNSUPPORTED) throw;
    return {};
  }
}

/// Descriptors of an operator, the default first: some kernel family takes one of them. Each is tried with each family.
std::vector<std::string> simple_descriptors(const std::string& name) {
  if (name == "gqa_decode") return {name + ":", name + ":query=fp16,kv=fp16,output=fp16,"};
  if (name == "w4a16_gemm") return {name + ":", name + ":tile_m=64,"};
  return {name + ":"};
}

/// One kernel for each architecture that has a family of its own by default, and one for each family with a name.
std::vector<Item> one_item_of_every_family() {
  std::vector<Item> items;
  std::set<std::pair<std::string, std::string>> families;  // by operator
  const auto add = [&](const std::string& descriptor) {
    bool is_legal = false;
    for (const char* const architecture : kArchitectures) {
      for (const std::string& kernel : members_if_legal(descriptor, architecture)) {
        std::optional<OrderedJson> plan = plan_of(kernel, architecture);
        if (!plan) continue;
        is_legal = true;
        if (families.emplace(operator_of(kernel), plan->at("family")).second)
          items.push_back({items.size(), kernel, architecture, std::move(*plan)});
      }
    }
    return is_legal;
  };
  for (const OrderedJson& listed : OrderedJson::parse(operators())) {
    const std::string name = listed.at("name");
    EXPECT_TRUE(add(name)) << name << " has no kernel for any of kArchitectures";
    for (const std::string& family : family_names(listed)) {
      bool is_legal = false;
      for (const std::string& descriptor : simple_descriptors(name))
        is_legal = is_legal || add(descriptor + "family=" + family);
      EXPECT_TRUE(is_legal) << name << " with family=" << family << ": simple_descriptors() has no descriptor for it";
    }
  }
  return items;
}

/// No architecture that cubit knows has a family that is left out of `families`.
void expect_families_of_every_architecture(const std::set<std::string>& families) {
  for (const OrderedJson& row : OrderedJson::parse(architectures())) {
    for (const OrderedJson& listed : OrderedJson::parse(operators())) {
      for (const std::string& kernel : members_if_legal(listed.at("name"), row.at("name"))) {
        const std::optional<OrderedJson> plan = plan_of(kernel, row.at("name"));
        if (!plan) continue;
        EXPECT_TRUE(families.contains(plan->at("family"))) << plan->at("family") << " for " << row.at("name");
      }
    }
  }
}

// The shards in little, for `make test`: one kernel of every family.
TEST(CoverFamilies, OneKernelOfEachComputesTheReferenceByTheRulesAndAsProved) {
  if (!can_compile()) GTEST_SKIP() << "no NVRTC on this machine";
  std::set<std::string> families;
  for (const Item& item : one_item_of_every_family()) {
    families.insert(item.plan.at("family"));
    SCOPED_TRACE(item.descriptor + " for " + item.architecture);
    std::printf("%s: %s for %s\n", item.plan.at("family").get<std::string>().c_str(), item.descriptor.c_str(),
                item.architecture.c_str());
    EXPECT_NO_THROW(expect_good(item));
  }
  expect_families_of_every_architecture(families);
}

/// What the shards hold together, in the log.
TEST(CoverList, HoldsEveryPairInFewKernelsOfEveryFamily) {
  std::map<std::string, std::size_t> kernels;
  std::map<std::string, std::size_t> sm90_kernels;  // of gqa_decode, by architecture
  std::set<std::string> families;
  std::size_t total = 0;
  for (std::size_t index = 0; index < cover().descriptors.size(); ++index) {
    for (const Item& item : items_of(index)) {
      ++total;
      ++kernels[item.architecture];
      if (item.plan.at("family") == "sm90_gqa_decode") ++sm90_kernels[item.architecture];
      families.insert(item.plan.at("family"));
    }
  }
  std::printf("%zu descriptors, %zu kernels, %zu of %zu pairs\n", cover().descriptors.size(), total, cover().pairs,
              cover().legal_pairs);
  for (const auto& [architecture, count] : kernels) std::printf("%s: %zu kernels\n", architecture.c_str(), count);
  EXPECT_EQ(cover().pairs, cover().legal_pairs);
  for (const char* const later : {"sm_100a", "sm_120"}) EXPECT_GE(sm90_kernels[later], 3u) << later;
  if (!kFull) {
    EXPECT_LE(total, kMostKernels);
  }
  expect_families_of_every_architecture(families);
}

}  // namespace
}  // namespace cubit::tests
