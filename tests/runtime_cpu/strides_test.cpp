// Tests of tensors with gaps through the public interface on the CPU device. Padded strides for query, key, value and
// output give the results of dense strides, and the gaps stay unchanged. Skipped without NVRTC.
#include <cubit/gqa_decode.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <cstdint>
#include <span>

#include "tests/gpu/gpu_case.hpp"

namespace cubit::tests {
namespace {

constexpr int kGap = 0xff;  // NaN in every float type

/// A tensor with gaps between rows: row r of `row_bytes` bytes begins at offsets[r].
struct Spread {
  std::vector<std::size_t> offsets;
  std::size_t row_bytes = 0;
  std::size_t bytes = 0;
};

/// Rows of a tensor [outer …, row]. Strides are in elements of `element` bytes.
Spread spread(std::span<const std::int64_t> outer, std::span<const std::int64_t> strides, std::size_t element,
              std::size_t row_bytes) {
  Spread result{{0}, row_bytes, 0};
  for (std::size_t dimension = 0; dimension < outer.size(); ++dimension) {
    std::vector<std::size_t> next;
    for (const std::size_t base : result.offsets) {
      for (std::int64_t i = 0; i < outer[dimension]; ++i) {
        next.push_back(base + static_cast<std::size_t>(i * strides[dimension]) * element);
      }
    }
    result.offsets = std::move(next);
  }
  result.bytes = *std::max_element(result.offsets.begin(), result.offsets.end()) + row_bytes;
  return result;
}

std::vector<unsigned char> scatter(const Spread& to, const void* dense) {
  std::vector<unsigned char> host(to.bytes, kGap);
  const auto* src = static_cast<const unsigned char*>(dense);
  for (const std::size_t offset : to.offsets) {
    std::copy_n(src, to.row_bytes, host.begin() + static_cast<std::ptrdiff_t>(offset));
    src += to.row_bytes;
  }
  return host;
}

std::vector<unsigned char> gather(const Spread& from, std::vector<unsigned char>& host) {
  std::vector<unsigned char> dense;
  for (const std::size_t offset : from.offsets) {
    const auto row = host.begin() + static_cast<std::ptrdiff_t>(offset);
    dense.insert(dense.end(), row, row + static_cast<std::ptrdiff_t>(from.row_bytes));
    std::fill_n(row, from.row_bytes, static_cast<unsigned char>(kGap));
  }
  return dense;
}

std::size_t size(const cubit_tensor& tensor, std::size_t dimension) {
  return static_cast<std::size_t>(tensor.shape[dimension]);
}

/// Fills `strides` for all dimensions but the last. From the innermost dimension outwards, each stride covers the
/// dimensions below and a gap that differs per dimension.
Spread padded_rows(const cubit_tensor& tensor, std::int64_t* strides, std::int64_t pad) {
  const std::size_t dimensions = static_cast<std::size_t>(tensor.rank) - 1;
  std::vector<std::int64_t> outer;
  std::size_t rows = 1;
  for (std::size_t i = 0; i < dimensions; ++i) {
    outer.push_back(tensor.shape[i]);
    rows *= size(tensor, i);
  }
  const std::size_t row_bytes = tensor_bytes(tensor) / rows;
  std::int64_t below = tensor.shape[dimensions];
  const auto element = row_bytes / static_cast<std::size_t>(below);
  for (std::size_t i = dimensions; i-- > 0;) {
    strides[i] = below + pad * static_cast<std::int64_t>(i + 1);
    below = strides[i] * outer[i];
  }
  return spread(outer, std::span(strides, dimensions), element, row_bytes);
}

/// The kernel for the CPU device, or nullptr without NVRTC.
std::unique_ptr<Kernel> compiled(const char* descriptor) {
  EngineOptions options;
  options.cache_dir = "";
  const Engine engine(options);
  try {
    return std::make_unique<Kernel>(engine.get(descriptor, "cpu:sm_90a"));
  } catch (const Error& error) {
    if (error.code() != CUBIT_COMPILER_UNAVAILABLE) throw;
    return nullptr;
  }
}

class Strides : public ::testing::TestWithParam<const char*> {
 protected:
  Strides() { device_.watch(CUBIT_WATCH_MEMORY); }

  /// Puts a tensor with gaps into device memory; inputs get their data, and every other byte is kGap.
  void* place(const cubit_tensor& tensor, const Spread& layout, bool input) {
    buffers_.push_back(std::make_unique<GuardedBuffer>(device_, layout.bytes, kGap));
    if (input) {
      const auto host = scatter(layout, tensor.data);
      device_.upload(buffers_.back()->data(), host.data(), host.size());
    }
    return buffers_.back()->data();
  }

  /// Places query, key, value and output, in this order. Returns the layout of the output.
  Spread place_all(const Problem& problem, cubit_gqa_decode_arguments& arguments) {
    for (const cubit_tensor& tensor : problem.inputs()) {
      const std::string name = tensor.name;
      if (name == "query") {
        arguments.query = place(tensor, padded_rows(tensor, arguments.query_strides, 24), true);
      } else if (name == "key") {
        arguments.key = place(tensor, padded_rows(tensor, arguments.key_strides, 16), true);
      } else if (name == "value") {
        arguments.value = place(tensor, padded_rows(tensor, arguments.value_strides, 48), true);
      }
    }
    Spread output;
    for (const cubit_tensor& tensor : problem.outputs()) {
      if (std::string(tensor.name) != "output") continue;
      output = padded_rows(tensor, arguments.output_strides, 8);
      arguments.output = place(tensor, output, false);
    }
    return output;
  }

  Device device_{"cpu:sm_90a"};
  std::vector<std::unique_ptr<GuardedBuffer>> buffers_;
};

TEST_P(Strides, WithGapsGiveWhatDenseOnesGive) {
  const auto kernel = compiled(GetParam());
  if (!kernel) GTEST_SKIP() << "no NVRTC on this machine";
  const Problem problem =
      Problem::random(GetParam(), {{"batch", 3}, {"context", 100}, {"kv_heads", 2}, {"ragged", 1}}, 3);
  const DeviceCase dense(device_, problem);  // the lengths come from this case
  auto arguments = *static_cast<const cubit_gqa_decode_arguments*>(dense.arguments());
  const Spread output = place_all(problem, arguments);
  ASSERT_EQ(buffers_.size(), 4u);

  GuardedBuffer workspace(device_, kernel->workspace(&arguments, &device_), 0);
  kernel->launch(&arguments, {.device = &device_,
                              .stream = nullptr,
                              .workspace = workspace.bytes() == 0 ? nullptr : workspace.data(),
                              .workspace_bytes = workspace.bytes()});
  device_.synchronise(nullptr);

  std::vector<unsigned char> host = buffers_.back()->download();
  const std::vector<unsigned char> result = gather(output, host);
  EXPECT_THAT(host, ::testing::Each(kGap));
  const auto compared = problem.compare(std::vector<const void*>{result.data()});
  EXPECT_LE(compared.error, compared.tolerance) << compared.worst;
  for (const auto& buffer : buffers_) EXPECT_TRUE(buffer->guards_intact());
}

INSTANTIATE_TEST_SUITE_P(Formats, Strides,
                         ::testing::Values("gqa_decode:heads_per_kv=5",
                                           "gqa_decode:heads_per_kv=8,kv=int4_rows,groups=4",
                                           "gqa_decode:heads_per_kv=3,kv=int4_rows",
                                           "gqa_decode:heads_per_kv=9,kv=int4_rows,groups=2,output=fp16"),
                         [](const auto& given) { return "Descriptor" + std::to_string(given.index); });

}  // namespace
}  // namespace cubit::tests
