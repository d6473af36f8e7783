#include "tests/cover/descriptors.hpp"

#include <cubit/cubit.hpp>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <stdexcept>
#include <string_view>

#include "tests/support/pairwise.hpp"

namespace cubit::tests {
namespace {

using Json = nlohmann::json;

/// Of a range, which is a size that is divided into tiles of 8: its ends, powers of two, and of a tile and more also one step
/// more.
bool is_telling(int value, int first, int last, int step) {
  constexpr int kTile = 8;
  if (value == first || value == last) return true;
  for (int power = 1; power <= last; power *= 2) {
    if (value == power) return true;
    if (power >= kTile && value == power + step) return true;
  }
  return false;
}

/// Fields that no rule between fields mentions: whether a combination is legal does not depend on them. Were that wrong, a
/// descriptor of the cover would be refused.
bool is_free(const std::string& name) {
  for (const char* free : {"heads_per_kv", "input", "rotary"})
    if (name == free) return true;
  return false;
}

/// Of "64, 128" all, of "1 to 64" and of "8 to 512 in steps of 8" those that tell something.
std::vector<std::string> accepted_values(const std::string& accepts) {
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
  for (std::string word; std::getline(words >> std::ws, word, ',');) values.push_back(word);
  return values;
}

class Fields {
 public:
  explicit Fields(const Json& listed) : name_(listed.at("name")) {
    for (const Json& field : listed.at("fields")) {
      fields_.push_back({field.at("name"), field.at("default"), accepted_values(field.at("accepts"))});
      counts.push_back(static_cast<int>(fields_.back().values.size()));
    }
    if (counts.size() == 1) counts.push_back(1);  // a field that is alone makes its pairs with nothing
  }

  /// Without what is at its default: some fields are refused beside others even there.
  std::string text(const Combination& combination) const {
    std::string text = name_;
    for (std::size_t i = 0; i < fields_.size(); ++i) {
      const std::string& value = fields_[i].values[static_cast<std::size_t>(combination[i])];
      if (value == fields_[i].standard) continue;
      text += (text == name_ ? ":" : ",") + fields_[i].name;
      text += '=' + value;
    }
    return text;
  }
  bool is_legal(Combination combination) {
    for (std::size_t i = 0; i < fields_.size(); ++i)
      if (is_free(fields_[i].name)) combination[i] = 0;
    const auto [known, is_new] = legal_.try_emplace(combination, false);
    if (!is_new) return known->second;
    try {
      canonical(text(combination));
      known->second = true;
    } catch (const Error& error) {
      if (error.code() != CUBIT_INVALID_ARGUMENT) throw;
    }
    return known->second;
  }

  std::vector<int> counts;  ///< values per field

 private:
  struct Field {
    std::string name;
    std::string standard;
    std::vector<std::string> values;
  };
  std::string name_;
  std::vector<Field> fields_;
  std::map<Combination, bool> legal_;
};

template <class Choose>
Cover cover_operators(Choose choose) {
  Cover cover;
  for (const Json& listed : Json::parse(operators())) {
    Fields fields(listed);
    const std::vector<Combination> legal =
        all_combinations(fields.counts, [&](const Combination& combination) { return fields.is_legal(combination); });
    PairSet pairs(fields.counts);
    for (const Combination& combination : choose(fields.counts, legal)) {
      pairs.insert(combination);
      cover.descriptors.push_back(canonical(fields.text(combination)));
    }
    PairSet legal_pairs(fields.counts);
    for (const Combination& combination : legal) legal_pairs.insert(combination);
    cover.pairs += pairs.size();
    cover.legal_pairs += legal_pairs.size();
  }
  return cover;
}

}  // namespace

Cover pairwise_descriptors() { return cover_operators(pairwise_cover_of); }

Cover all_descriptors() {
  return cover_operators(
      [](const std::vector<int>&, const std::vector<Combination>& legal) -> const auto& { return legal; });
}

}  // namespace cubit::tests
