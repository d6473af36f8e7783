// Measures one format of the KV-cache study through kv_append and gqa_decode, or simulates the format.
#pragma once

#include <nlohmann/json.hpp>

#include "tools/bench/benchmark.hpp"
#include "tools/study/kernel_runner.hpp"
#include "tools/study/kv/kv_data.hpp"

namespace cubit::tools {

class KvStudy {
 public:
  /// `runner` outlives the object.
  KvStudy(KvData data, const KernelRunner& runner);

  /// {"format", "scales", "groups", "simulated", "kernels": [descriptors], "bytes_per_token", "error", "worst_error",
  /// "microseconds"}. The errors are those of the attention output, of all heads together and of the worst head. The
  /// time is null without a GPU, and for simulated formats.
  nlohmann::ordered_json measure(const KvFormat& format);

 private:
  nlohmann::ordered_json measure_kernels(const KvFormat& format);
  HostTensors append(const std::string& descriptor, const KvFormat& format, const std::vector<float>& key_scales,
                     const std::vector<float>& value_scales) const;
  void add_errors(nlohmann::ordered_json& entry, const Matrix& got) const;
  std::vector<std::int64_t> scale_shape(const KvFormat& format) const;

  KvData data_;
  std::vector<std::uint16_t> query_;
  std::vector<std::uint16_t> key_;
  std::vector<std::uint16_t> value_;
  Matrix exact_;
  const KernelRunner& runner_;
  Benchmark benchmark_;
};

}  // namespace cubit::tools
