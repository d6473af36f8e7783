#include "tests/cover/descriptors.hpp"

#include <algorithm>
#include <cubit/cubit.hpp>
#include <cubit/kv_append.hpp>
#include <cubit/kv_gather.hpp>
#include <nlohmann/json.hpp>
#include <sstream>
#include <stdexcept>
#include <string_view>
#include <unordered_map>

#include "tests/support/cache_descriptors.hpp"
#include "tests/support/gqa_descriptors.hpp"
#include "tests/support/pairwise.hpp"

namespace cubit::tests {
namespace {

using Json = nlohmann::json;

/// Of a range, which is a size that is divided into tiles of 8: its ends, powers of two, and of a tile and more also
/// one step more.
bool is_telling(int value, int first, int last, int step) {
  constexpr int kTile = 8;
  if (value == first || value == last) return true;
  for (int power = 1; power <= last; power *= 2) {
    if (value == power) return true;
    if (power >= kTile && value == power + step) return true;
  }
  return false;
}

/// Numbers of heads per KV head: one, full tiles of 8, one more than full tiles, and others that models have. Beside
/// what a range tells by itself, these would be more kernels than there is time for.
constexpr const char* kHeads[] = {"1", "3", "7", "8", "12", "16", "17", "33", "48", "64"};

/// Fields that no rule between fields mentions: whether a combination is legal does not depend on them. Were that
/// wrong, a descriptor of the cover would be refused. Sums of w8a8_gemm, output=int32, take neither bias nor residual.
bool is_free(const std::string& op, const std::string& name) {
  if (op == "w8a8_gemm" && (name == "bias" || name == "residual")) return false;
  for (const char* free : {"heads_per_kv", "input", "rotary", "bias", "residual"})
    if (name == free) return true;
  return false;
}

/// Fields of two or three values that may be added to nearly every descriptor, whatever it is. Among the others they
/// would make millions of combinations.
bool is_added(const std::string& name) {
  for (const char* added :
       {"soft_cap", "alibi", "score", "window", "sinks", "atomic_splits", "layers", "zero_points", "second_output"})
    if (name == added) return true;
  return false;
}

/// Fields of values that are stored otherwise than keys: with each other and all the rest they would make too many
/// combinations, and have a list of their own, mixed_descriptors().
bool is_apart(const std::string& name) {
  static constexpr std::string_view kApart[] = {"value_dim", "value", "value_groups", "value_scales",
                                                "value_scale_type"};
  return std::ranges::find(kApart, name) != std::end(kApart);
}

/// Tiles that are left to cubit name a set, and its members are descriptors of the cover by their own texts.
bool names_a_set(const std::string& field, const std::string& value) {
  return field.starts_with("tile_") && value == "auto";
}

/// All values of a list such as "64, 128", and the instructive values of a range such as "1 to 64" or "8 to 512 in
/// steps of 8".
std::vector<std::string> accepted_values(const std::string& name, const std::string& accepts) {
  if (name == "heads_per_kv") return {std::begin(kHeads), std::end(kHeads)};
  std::vector<std::string> values;
  const std::size_t range = accepts.find(" to ");
  if (range != std::string::npos) {
    const int first = std::stoi(accepts);
    const int last = std::stoi(accepts.substr(range + 4));
    constexpr std::string_view kSteps = "in steps of ";
    const std::size_t steps = accepts.find(kSteps);
    const int step = steps == std::string::npos ? 1 : std::stoi(accepts.substr(steps + kSteps.size()));
    for (int value = first; value <= last; value += step) {
      if (is_telling(value, first, last, step)) values.push_back(std::to_string(value));
    }
    return values;
  }
  std::istringstream words(accepts);
  for (std::string word; std::getline(words >> std::ws, word, ',');) {
    if (names_a_set(name, word)) continue;
    values.push_back(word == "name@hash" ? cover_score() : word);
  }
  return values;
}

class Fields {
 public:
  explicit Fields(const Json& listed) : name_(listed.at("name")) {
    for (const bool added : {false, true}) {
      for (const Json& field : listed.at("fields")) {
        if (is_added(field.at("name")) != added || is_apart(field.at("name"))) continue;
        fields_.push_back({field.at("name"), field.at("default"),
                           accepted_values(field.at("name"), field.at("accepts")), is_free(name_, field.at("name"))});
        (added ? added_counts : counts).push_back(static_cast<int>(fields_.back().values.size()));
      }
    }
    while (counts.size() < 2) counts.push_back(1);  // a field that is alone, or none, makes its pairs with nothing
  }

  /// Without what is at its default: some fields are refused beside others even there.
  std::string text(const Combination& combination) const {
    std::string text = name_;
    for (std::size_t i = 0; i < std::min(fields_.size(), combination.size()); ++i) {
      const std::string& value = fields_[i].values[static_cast<std::size_t>(combination[i])];
      if (value == fields_[i].standard) continue;
      text += (text == name_ ? ":" : ",") + fields_[i].name;
      text += '=' + value;
    }
    return text;
  }
  bool is_legal(Combination combination) {
    for (std::size_t i = 0; i < std::min(fields_.size(), combination.size()); ++i)
      if (fields_[i].is_free) combination[i] = 0;
    const auto [known, is_new] = legal_.try_emplace(std::string(combination.begin(), combination.end()), false);
    if (!is_new) return known->second;
    // By the C function: of millions of combinations most are refused, and an exception more for each is half the time.
    const char* canonical = nullptr;
    const cubit_status status = cubit_descriptor_canonical(text(combination).c_str(), &canonical);
    if (status != CUBIT_OK && status != CUBIT_INVALID_ARGUMENT)
      throw std::runtime_error(text(combination) + ": neither legal nor refused");
    return known->second = status == CUBIT_OK;
  }

  /// The combinations that a combination of the other fields makes with those that may be added; itself first.
  std::vector<Combination> with_added(const Combination& combination) {
    std::vector<Combination> all;
    for (const Combination& added : all_combinations(added_counts, [](const Combination&) { return true; })) {
      Combination whole = combination;
      whole.insert(whole.end(), added.begin(), added.end());
      if (is_legal(whole)) all.push_back(std::move(whole));
    }
    return all;
  }

  std::vector<int> counts;        ///< values per field
  std::vector<int> added_counts;  ///< of those that may be added, which come behind the others

 private:
  struct Field {
    std::string name;
    std::string standard;
    std::vector<std::string> values;
    bool is_free;
  };
  std::string name_;
  std::vector<Field> fields_;
  std::unordered_map<std::string, bool> legal_;  ///< by a byte for each field
};

/// To each of `chosen` what makes most pairs that nothing else has made, then what more it takes. `chosen` has every
/// legal pair of values of the other fields, so each of their values is there beside whatever does not rule it out.
std::vector<Combination> pairs_with_added(Fields& fields, const std::vector<Combination>& chosen,
                                          const std::vector<int>& counts) {
  std::vector<std::vector<Combination>> candidates;
  PairSet uncovered(counts);
  for (const Combination& combination : chosen) {
    candidates.push_back(fields.with_added(combination));
    for (const Combination& candidate : candidates.back()) uncovered.insert(candidate);
  }
  std::vector<Combination> cover;
  for (int round = 0; round == 0 || uncovered.size() > 0; ++round) {
    for (const std::vector<Combination>& some : candidates) {
      const Combination* best = &some.front();
      for (const Combination& candidate : some)
        if (uncovered.count(candidate) > uncovered.count(*best)) best = &candidate;
      if (round > 0 && uncovered.count(*best) == 0) continue;
      uncovered.erase(*best);
      cover.push_back(*best);
    }
  }
  return cover;
}

/// Adds one combination of the added fields to each of `chosen`.
std::vector<Combination> rounds_with_added(Fields& fields, const std::vector<Combination>& chosen) {
  std::vector<Combination> cover;
  for (std::size_t i = 0; i < chosen.size(); ++i) {
    const std::vector<Combination> candidates = fields.with_added(chosen[i]);
    cover.push_back(candidates[i % candidates.size()]);
  }
  return cover;
}

template <class Choose>
Cover cover_operators(Choose choose, bool rounds) {
  Cover cover;
  for (const Json& listed : Json::parse(operators())) {
    Fields fields(listed);
    const std::vector<Combination> legal =
        all_combinations(fields.counts, [&](const Combination& combination) { return fields.is_legal(combination); });
    std::vector<int> counts = fields.counts;
    counts.insert(counts.end(), fields.added_counts.begin(), fields.added_counts.end());
    const std::vector<Combination> chosen = choose(fields.counts, legal);
    PairSet pairs(counts);
    for (const Combination& combination :
         rounds ? rounds_with_added(fields, chosen) : pairs_with_added(fields, chosen, counts)) {
      pairs.insert(combination);
      cover.descriptors.push_back(canonical(fields.text(combination)));
    }
    PairSet legal_pairs(counts);
    for (const Combination& combination : legal) legal_pairs.insert(combination);
    for (const Combination& combination : chosen)
      for (const Combination& candidate : fields.with_added(combination)) legal_pairs.insert(candidate);
    cover.pairs += pairs.size();
    cover.legal_pairs += legal_pairs.size();
  }
  return cover;
}

/// Caches whose values are stored otherwise than their keys.
std::vector<std::string> mixed_descriptors() {
  constexpr int kFew = 6;    // formats; the others differ from some of these in numbers alone
  constexpr int kKinds = 4;  // of rows, whose kernels are simple: one of each
  std::vector<std::string> descriptors;
  constexpr std::size_t kOfEarlier = 5;  // family sm75 differs in how rows are copied alone: every fifth
  const std::vector<GqaDecode> mixed = mixed_gqa_descriptors(false, kFew);
  for (std::size_t i = 0; i < mixed.size(); ++i) {
    descriptors.push_back(canonical(mixed[i].text()));
    if (i % kOfEarlier == 0) descriptors.push_back(canonical(made_fit_for_sm75(mixed[i]).text()));
  }
  for (const auto& descriptor : mixed_rows_descriptors<KvAppend>(kKinds))
    descriptors.push_back(canonical(descriptor.text()));
  for (const auto& descriptor : mixed_rows_descriptors<KvGather>(kKinds))
    descriptors.push_back(canonical(descriptor.text()));
  return descriptors;
}

Cover with_mixed(Cover cover) {
  for (std::string& descriptor : mixed_descriptors()) cover.descriptors.push_back(std::move(descriptor));
  return cover;
}

}  // namespace

std::string cover_score() {
  static const std::string field = add_score("cover", R"(
__device__ float modify_score(float score, const cubit::ScorePlace& place, const void* parameters) {
  if (parameters == nullptr) return score;
  const float slope = static_cast<const float*>(parameters)[place.head];
  return score + slope * static_cast<float>(place.position - place.query_position);
}
)");
  return field;
}

Cover pairwise_descriptors() { return with_mixed(cover_operators(pairwise_cover_of, false)); }

Cover all_descriptors() {
  return with_mixed(cover_operators(
      [](const std::vector<int>&, const std::vector<Combination>& legal) -> const auto& { return legal; }, true));
}

}  // namespace cubit::tests
