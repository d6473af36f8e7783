#include "tests/cover/descriptors.hpp"

#include <cubit/cubit.hpp>
#include <nlohmann/json.hpp>
#include <sstream>
#include <stdexcept>

#include "tests/support/pairwise.hpp"

namespace cubit::tests {
namespace {

using Json = nlohmann::json;

/// Of a range, which is a size that is divided into tiles: its ends, powers of two, one more, and three quarters.
bool is_telling(int value, int first, int last) {
  if (value == first || value == last) return true;
  for (int power = 1; power <= last; power *= 2) {
    if (value - power == 0 || value - power == 1 || 4 * value == 3 * power) return true;
  }
  return false;
}

/// Of "64, 128" all, of "1 to 64" those that tell something.
std::vector<std::string> accepted_values(const std::string& accepts) {
  std::vector<std::string> values;
  const std::size_t range = accepts.find(" to ");
  if (range != std::string::npos) {
    const int first = std::stoi(accepts);
    const int last = std::stoi(accepts.substr(range + 4));
    for (int value = first; value <= last; ++value) {
      if (is_telling(value, first, last)) values.push_back(std::to_string(value));
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
  bool is_legal(const Combination& combination) const {
    try {
      canonical(text(combination));
      return true;
    } catch (const Error& error) {
      if (error.code() != CUBIT_INVALID_ARGUMENT) throw;
      return false;
    }
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
};

template <class Choose>
Cover cover_operators(Choose choose) {
  Cover cover;
  for (const Json& listed : Json::parse(operators())) {
    const Fields fields(listed);
    const auto legal = [&](const Combination& combination) { return fields.is_legal(combination); };
    PairSet pairs(fields.counts);
    for (const Combination& combination : choose(fields.counts, legal)) {
      pairs.insert(combination);
      cover.descriptors.push_back(canonical(fields.text(combination)));
    }
    PairSet legal_pairs(fields.counts);
    for (const Combination& combination : all_combinations(fields.counts, legal)) legal_pairs.insert(combination);
    cover.pairs += pairs.size();
    cover.legal_pairs += legal_pairs.size();
  }
  return cover;
}

}  // namespace

Cover pairwise_descriptors() { return cover_operators(pairwise_cover); }

Cover all_descriptors() { return cover_operators(all_combinations); }

}  // namespace cubit::tests
