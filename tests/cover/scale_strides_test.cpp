// Scales in tensors with other orders of dimensions and with gaps, and one scale per KV head for all tokens (strides of
// 0). Each operator that takes scales computes what the reference computes from dense scales, and kv_append leaves the
// gaps alone. Scales per KV head are also tensors [kv_heads] of a problem. Without NVRTC the tests are skipped.
#include <cubit/gqa_decode.h>
#include <cubit/kv_append.h>
#include <cubit/kv_gather.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <type_traits>

#include "tests/gpu/gpu_case.hpp"
#include "tests/support/cpu_engine.hpp"

namespace cubit::tests {
namespace {

using Bytes = std::vector<unsigned char>;
constexpr unsigned char kGap = 0xff;  // NaN in every float type

/// Where the scales of a problem's dense tensor lie instead: by its first three dimensions, of which the one that is
/// left holds a row's groups together.
struct Spread {
  std::array<std::int64_t, 3> strides;  ///< in scales
  std::int64_t scales;                  ///< that all of it takes
};

std::int64_t groups_of(const cubit_tensor& tensor) { return tensor.rank == 4 ? tensor.shape[3] : 1; }
std::size_t bytes_of_scale(const cubit_tensor& tensor) { return std::string_view(tensor.type) == "F32" ? 4 : 2; }
bool has_scales(const cubit_tensor& tensor) { return std::string_view(tensor.name).ends_with("_scale"); }

/// `order`: of the dimensions, from the outermost; a scale's room is left after each.
Spread permuted(const cubit_tensor& tensor, const std::array<std::size_t, 3>& order) {
  Spread spread{{}, groups_of(tensor)};
  for (std::size_t i = order.size(); i-- > 0;) {
    spread.strides[order[i]] = spread.scales + 1;
    spread.scales = spread.strides[order[i]] * tensor.shape[order[i]];
  }
  return spread;
}

Spread per_head(const cubit_tensor& tensor, std::size_t heads) {
  Spread spread{{}, (groups_of(tensor) + 1) * tensor.shape[heads]};
  spread.strides[heads] = groups_of(tensor) + 1;
  return spread;
}

/// visit(place among those that are spread, place in the dense tensor, bytes) for each row.
template <class Visit>
void for_rows(const cubit_tensor& tensor, const Spread& spread, Visit&& visit) {
  const std::size_t bytes = static_cast<std::size_t>(groups_of(tensor)) * bytes_of_scale(tensor);
  std::size_t dense = 0;
  for (std::int64_t i = 0; i < tensor.shape[0]; ++i)
    for (std::int64_t j = 0; j < tensor.shape[1]; ++j)
      for (std::int64_t k = 0; k < tensor.shape[2]; ++k, dense += bytes) {
        const std::int64_t at = i * spread.strides[0] + j * spread.strides[1] + k * spread.strides[2];
        visit(static_cast<std::size_t>(at) * bytes_of_scale(tensor), dense, bytes);
      }
}

Bytes scatter(const cubit_tensor& tensor, const Spread& spread) {
  Bytes result(static_cast<std::size_t>(spread.scales) * bytes_of_scale(tensor), kGap);
  const auto* const data = static_cast<const unsigned char*>(tensor.data);
  for_rows(tensor, spread, [&](std::size_t at, std::size_t dense, std::size_t bytes) {
    std::copy_n(data + dense, bytes, &result[at]);
  });
  return result;
}

/// Dense again. Between the rows nothing may have changed.
Bytes gather(const cubit_tensor& tensor, const Spread& spread, const Bytes& from) {
  Bytes result(tensor_bytes(tensor));
  Bytes gaps = from;
  for_rows(tensor, spread, [&](std::size_t at, std::size_t dense, std::size_t bytes) {
    std::copy_n(&from[at], bytes, &result[dense]);
    std::fill_n(&gaps[at], bytes, kGap);
  });
  EXPECT_EQ(gaps, Bytes(from.size(), kGap));
  return result;
}

struct ScaleCase {
  const char* fields;
  int hnd;             ///< of pages
  const char* family;  ///< of gqa_decode
};

class ScaleStrides : public ::testing::TestWithParam<ScaleCase> {
 protected:
  std::string text(const char* op) const { return std::string(op) + ":head_dim=64," + GetParam().fields; }
  bool is_paged() const { return std::string_view(GetParam().fields).find("paged") != std::string_view::npos; }
  Problem::Numbers numbers(Problem::Numbers given) const {
    if (is_paged()) given.emplace_back("hnd", GetParam().hnd);
    return given;
  }
  std::size_t heads() const { return GetParam().hnd == 1 ? 1 : 2; }  ///< a dimension

  /// Launches with scales as spread_of(tensor) has them.
  template <class Arguments, class SpreadOf>
  void expect_good(const Device& device, const Kernel& kernel, const Problem& problem, SpreadOf&& spread_of) const {
    DeviceCase launched(device, problem);
    auto arguments = *static_cast<const Arguments*>(launched.arguments());
    std::vector<std::unique_ptr<GuardedBuffer>> buffers;
    const auto place = [&](const cubit_tensor& tensor) {
      const Spread spread = spread_of(tensor);
      const Bytes host = scatter(tensor, spread);
      buffers.push_back(std::make_unique<GuardedBuffer>(device, host.size(), 0));
      void* const data = buffers.back()->data();
      device.upload(data, host.data(), host.size());
      const bool of_keys = std::string_view(tensor.name) == "key_scale";
      (of_keys ? arguments.scales.key : arguments.scales.value) = data;
      std::int64_t* const strides = of_keys ? arguments.scales.key_strides : arguments.scales.value_strides;
      strides[0] = spread.strides[0];
      strides[1] = spread.strides[3 - heads()];
      strides[2] = spread.strides[heads()];
    };
    for (const cubit_tensor& tensor : problem.inputs())
      if (has_scales(tensor)) place(tensor);
    const auto outputs = problem.outputs();
    for (const cubit_tensor& tensor : outputs)
      if (has_scales(tensor)) place(tensor);
    ASSERT_EQ(buffers.size(), 2u);
    launch_once(device, kernel, &arguments);
    std::size_t written = 0;
    for (std::size_t i = 0; i < outputs.size(); ++i) {  // to where the problem looks for them
      if (!has_scales(outputs[i])) continue;
      const Bytes dense = gather(outputs[i], spread_of(outputs[i]), buffers[written++]->download());
      device.upload(launched.output(i).data(), dense.data(), dense.size());
    }
    for (const auto& buffer : buffers) EXPECT_TRUE(buffer->guards_intact());
    const auto result = launched.compare(problem);
    EXPECT_LE(result.error, result.tolerance) << result.worst;
  }

  template <class Arguments>
  void expect_any_order(const Device& device, const Kernel& kernel, const std::string& descriptor) const {
    const auto sizes = numbers({{"batch", 5}, {"context", 40}, {"kv_heads", 3}, {"ragged", 1}});
    expect_good<Arguments>(device, kernel, Problem::random(descriptor, sizes, 3), [](const cubit_tensor& tensor) {
      const bool of_keys = std::string_view(tensor.name) == "key_scale";  // those of values in another order
      return permuted(tensor, of_keys ? std::array<std::size_t, 3>{2, 0, 1} : std::array<std::size_t, 3>{1, 2, 0});
    });
  }

  /// The same scales for each token, for the reference; then each only once, as a problem's tensors.
  template <class Arguments>
  void expect_one_per_head(const Device& device, const Kernel& kernel, const std::string& descriptor) const {
    const auto of_heads = [&](const cubit_tensor& tensor) { return per_head(tensor, heads()); };
    const Problem made = Problem::random(descriptor, numbers({{"batch", 3}, {"context", 40}, {"kv_heads", 3}}), 6);
    const Problem::Numbers launch = is_paged() ? numbers({{"max_length", 40}}) : Problem::Numbers{};
    std::vector<cubit_tensor> inputs = made.inputs();
    std::vector<Bytes> scales;
    const auto replace = [&](cubit_tensor& tensor, Bytes bytes) {
      scales.push_back(std::move(bytes));
      tensor.data = scales.back().data();
    };
    for (cubit_tensor& tensor : inputs)
      if (has_scales(tensor)) replace(tensor, gather(tensor, of_heads(tensor), scatter(tensor, of_heads(tensor))));
    expect_good<Arguments>(device, kernel, Problem(descriptor, inputs, launch), of_heads);

    for (cubit_tensor& tensor : inputs) {
      if (!has_scales(tensor)) continue;
      Spread dense{{}, groups_of(tensor) * tensor.shape[heads()]};
      dense.strides[heads()] = groups_of(tensor);
      replace(tensor, scatter(tensor, dense));
      tensor.shape[0] = tensor.shape[heads()];
      tensor.shape[1] = groups_of(tensor);
      tensor.rank -= 2;
    }
    const Problem problem(descriptor, inputs, launch);
    DeviceCase launched(device, problem);
    launch_once(device, kernel, launched.arguments());
    const auto result = launched.compare(problem);
    EXPECT_LE(result.error, result.tolerance) << result.worst;
  }

  template <class Arguments>
  void expect_all(const std::string& descriptor) const {
    SCOPED_TRACE(descriptor);
    const char* const name = descriptor.ends_with("sm90") ? "cpu:sm_90a" : "cpu:sm_80";
    const Device device(name);
    device.watch(CUBIT_WATCH_MEMORY);
    const Kernel kernel = engine().get(descriptor, name);
    expect_any_order<Arguments>(device, kernel, descriptor);
    // What writes scales has one for each row.
    if constexpr (!std::is_same_v<Arguments, cubit_kv_append_arguments>)
      expect_one_per_head<Arguments>(device, kernel, descriptor);
  }
};

TEST_P(ScaleStrides, AreWhatTheCallerSays) {
  if (!can_compile()) GTEST_SKIP() << "no NVRTC on this machine";
  expect_all<cubit_kv_append_arguments>(text("kv_append"));
  expect_all<cubit_kv_gather_arguments>(text("kv_gather"));
  expect_all<cubit_gqa_decode_arguments>(text("gqa_decode") + ",family=" + GetParam().family);
}

INSTANTIATE_TEST_SUITE_P(Formats, ScaleStrides,
                         ::testing::Values(ScaleCase{"kv=int8_split", 0, "sm80"},
                                           ScaleCase{"kv=int8_split,groups=4,scales=group,scale_type=fp16", 0, "sm80"},
                                           ScaleCase{"kv=int8_split,scale_type=fp16,cache=paged", 1, "sm90"}));

}  // namespace
}  // namespace cubit::tests
