#include "ops/recent_launches.hpp"

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

namespace cubit::ops {
namespace {

bool are_equal(const LaunchRequest& a, const LaunchRequest& b) {
  return a.kernel == b.kernel && a.device == b.device && a.workspace == b.workspace &&
         a.workspace_bytes == b.workspace_bytes && a.arguments.size() == b.arguments.size() &&
         std::memcmp(a.arguments.data(), b.arguments.data(), a.arguments.size()) == 0;
}

/// Frees it as the thread ends. A launch after that, by what is destroyed later, begins with an empty one, which stays.
thread_local RecentLaunches* g_recent = nullptr;
struct Owner {
  ~Owner() { delete std::exchange(g_recent, nullptr); }
};

}  // namespace

RecentLaunches& RecentLaunches::of_this_thread() {
  if (g_recent == nullptr) [[unlikely]] {
    static thread_local const Owner owner;
    g_recent = new RecentLaunches;
  }
  return *g_recent;
}

/// Of four chains, which the processor follows side by side; never 0.
std::uint64_t RecentLaunches::hash_of(const LaunchRequest& request) {
  constexpr std::uint64_t kFactor = 0x9e3779b97f4a7c15;
  constexpr std::size_t kWord = sizeof(std::uint64_t);
  const auto mixed = [](std::uint64_t chain, std::uint64_t word) {
    chain = (chain ^ word) * kFactor;
    return chain ^ chain >> 32;
  };
  const std::byte* const bytes = request.arguments.data();
  const auto word = [bytes](std::size_t at) {
    std::uint64_t value = 0;
    std::memcpy(&value, bytes + at, kWord);
    return value;
  };
  std::uint64_t a = request.kernel;
  std::uint64_t b = request.device;
  auto c = reinterpret_cast<std::uintptr_t>(request.workspace);
  std::uint64_t d = request.workspace_bytes;
  std::size_t at = 0;
  for (; at + 4 * kWord <= request.arguments.size(); at += 4 * kWord) {
    a = mixed(a, word(at));
    b = mixed(b, word(at + kWord));
    c = mixed(c, word(at + 2 * kWord));
    d = mixed(d, word(at + 3 * kWord));
  }
  for (; at < request.arguments.size(); at += kWord) a = mixed(a, word(at));
  return mixed(mixed(mixed(a, b), c), d) | 1;
}

const Launch* RecentLaunches::find(const LaunchRequest& request, std::uint64_t hash, std::size_t place) {
  for (std::size_t way = 0; way < kWays; ++way) {
    if (places_[place][way] != hash) continue;
    const Entry* const known = std::launder(reinterpret_cast<const Entry*>(entry_at(place, way)));
    if (are_equal(known->request, request)) return &known->launch;
  }
  return nullptr;
}

std::size_t RecentLaunches::vacate(std::uint64_t hash, std::size_t place) {
  Place& ways = places_[place];
  const auto vacant = static_cast<std::size_t>(std::find(ways.begin(), ways.end(), 0U) - ways.begin());
  const std::size_t way = vacant < kWays ? vacant : (hash >> 32) % kWays;
  ways[way] = 0;
  return way;
}

}  // namespace cubit::ops
