// A case of kv_append, which the tests of problems of KV caches change.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "check/kv_append/problem.hpp"

namespace cubit::check {

/// Two sequences of 3 new tokens, 2 KV heads of 64 channels, in caches of 4 tokens. The case has twice as many rows and
/// lengths as needed, so that a tensor that a test declares with a wider type still has all its bytes.
struct RowCase {
  std::vector<std::uint16_t> rows = std::vector<std::uint16_t>(2 * 2 * 3 * 2 * 64, 0x3f80);
  std::vector<std::uint16_t> cache = std::vector<std::uint16_t>(2 * 4 * 2 * 64, 0x4000);
  std::vector<std::int32_t> lengths = {2, 0, 0, 0};
  std::string text = "kv_append:head_dim=64";
  std::vector<Tensor> tensors;
  Numbers numbers;

  RowCase() {
    for (const char* name : {"key", "value"}) tensors.push_back({name, "BF16", {2, 3, 2, 64}, {}, rows.data()});
    for (const char* name : {"key_cache", "value_cache"})
      tensors.push_back({name, "BF16", {2, 4, 2, 64}, {}, cache.data()});
    tensors.push_back({"lengths", "I32", {2}, {}, lengths.data()});
  }
  std::unique_ptr<Problem> problem() const { return find_problems(text).problem(text, tensors, numbers); }
};

}  // namespace cubit::check
