// The part of a long list of kernels that this run of a test takes.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cubit::tests {

/// FNV-1a, which every machine and every run computes alike.
constexpr std::uint64_t stable_hash(std::string_view text) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const char byte : text) hash = (hash ^ static_cast<unsigned char>(byte)) * 0x100000001b3;
  return hash;
}

/// Whether `item` belongs to the sample CUBIT_TEST_SAMPLE=PART/PARTS. The parts together hold every item once, whatever
/// else the list holds. Without the variable the sample is everything.
inline bool in_sample(std::string_view item) {
  const char* const text = std::getenv("CUBIT_TEST_SAMPLE");
  if (text == nullptr || *text == 0) return true;
  std::uint64_t part = 0;
  std::uint64_t parts = 0;
  char slash = 0;
  std::istringstream words(text);
  if (!(words >> part >> slash >> parts) || slash != '/' || part >= parts)
    throw std::runtime_error("CUBIT_TEST_SAMPLE=" + std::string(text) + ": PART/PARTS with PART < PARTS is expected");
  return (stable_hash(item) >> 32) % parts == part;
}

/// Leaves those of `items` whose name is in the sample; the first item where that would leave none, so that no run of a
/// test proves nothing.
template <class Item, class NameOf>
void keep_sample(std::vector<Item>& items, NameOf&& name_of) {
  std::vector<Item> kept;
  for (const Item& item : items)
    if (in_sample(name_of(item))) kept.push_back(item);
  if (kept.empty() && !items.empty()) kept.push_back(items.front());
  items = std::move(kept);
}

}  // namespace cubit::tests
