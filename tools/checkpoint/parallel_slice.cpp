#include "tools/checkpoint/parallel_slice.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <utility>

#include "files/text/error.hpp"
#include "tools/checkpoint/evidence.hpp"

namespace cubit::tools {
namespace {

const TensorView& required(const std::vector<TensorView>& layer, const char* name) {
  const auto found = std::find_if(layer.begin(), layer.end(), [&](const TensorView& one) { return one.name == name; });
  if (found != layer.end() && found->shape.size() == 2) return *found;
  throw BadInput("--tensor-parallel", fmt::format("the layer has no {} with two dimensions", name),
                 "give --weights of a quantised layer");
}

/// The sizes of the whole layer.
W4LayerSizes sizes_of_layer(const std::vector<TensorView>& layer, const W4Reading& reading) {
  const TensorView& words = required(layer, "qweight");
  const TensorView& scales = required(layer, "scales");
  W4LayerSizes sizes{scales.shape[1], 0, scales.shape[0], reading.bits};
  sizes.k = reading.format == W4Format::awq ? words.shape[0] : words.shape[0] * sizes.in_word();
  return sizes;
}

}  // namespace

W4Rank parse_rank(const std::string& text) {
  W4Rank rank;
  const char* const end = text.data() + text.size();
  const auto first = std::from_chars(text.data(), end, rank.rank);
  if (first.ec == std::errc() && first.ptr != end && *first.ptr == '/') {
    const auto second = std::from_chars(first.ptr + 1, end, rank.size);
    if (second.ec == std::errc() && second.ptr == end && rank.size >= 1 && rank.rank >= 0 && rank.rank < rank.size)
      return rank;
  }
  throw BadInput("--tensor-parallel " + text, "is not a rank and a number of ranks", "give RANK/SIZE, such as 0/4");
}

template <class Number>
void ParallelSlice::add_cut(const TensorView& tensor, const W4Range& range) {
  std::size_t numbers = 1;
  for (const std::int64_t extent : tensor.shape) numbers *= static_cast<std::size_t>(extent);
  if (tensor.data.size() != numbers * sizeof(Number))
    throw BadInput(fmt::format("tensor {} of type {}", tensor.name, tensor.type),
                   fmt::format("--tensor-parallel cuts it as numbers of {} bits", 8 * sizeof(Number)),
                   "give the types that w4a16_gemm takes");
  std::vector<Number> src(numbers);
  std::memcpy(src.data(), tensor.data.data(), src.size() * sizeof(Number));
  std::vector<Number> dst(static_cast<std::size_t>(range.rows * range.columns));
  const std::int64_t columns = tensor.shape.size() == 2 ? tensor.shape[1] : 1;
  cut_w4(std::span<const Number>(src), columns, range, std::span(dst));
  const std::size_t bytes = dst.size() * sizeof(Number);
  auto storage = std::make_unique_for_overwrite<std::byte[]>(bytes);
  std::memcpy(storage.get(), dst.data(), bytes);
  std::vector<std::int64_t> shape = {range.rows};
  if (tensor.shape.size() == 2) shape.push_back(range.columns);
  tensors_.push_back({tensor.name, tensor.type, std::move(shape), {storage.get(), bytes}});
  storage_.push_back(std::move(storage));
}

/// A bias has one number of 2 or 4 bytes for each output feature.
void ParallelSlice::add_bias(const TensorView& tensor, const W4Slice& slice) {
  const W4Range range = {slice.first_n, slice.n, 0, 1};
  tensor.type == "F32" ? add_cut<std::uint32_t>(tensor, range) : add_cut<std::uint16_t>(tensor, range);
  const bool is_added_by_rank_0 = slice.first_k > 0;
  if (is_added_by_rank_0) std::fill_n(storage_.back().get(), tensors_.back().data.size(), std::byte{0});
}

ParallelSlice::ParallelSlice(const std::vector<TensorView>& layer, const std::string& descriptor,
                             std::int64_t activations, W4Rank rank) {
  const W4Reading reading = reading_of(descriptor);
  if (descriptor.find("function=silu_gate") != std::string::npos && descriptor.find("layers=2") == std::string::npos)
    throw BadInput(descriptor, "--tensor-parallel does not cut gates and up-projections of one tensor",
                   "leave function=silu_gate out, or give them as two layers");
  const W4LayerSizes sizes = sizes_of_layer(layer, reading);
  if (activations != sizes.k && activations * rank.size != sizes.k)
    throw BadInput(
        fmt::format("activations of k = {}", activations),
        fmt::format("the layer has k = {}, and a rank of {} has {}", sizes.k, rank.size, sizes.k / rank.size),
        "give the activations of all of k to cut output features, or the rank's to cut input features");
  const W4Cut cut = activations == sizes.k ? W4Cut::columns : W4Cut::rows;
  const W4Slice slice = slice_of(reading.format, sizes, cut, rank, reading.activation_order.value_or(false));
  for (const TensorView& tensor : layer) {
    if (tensor.name == "qweight") {
      add_cut<std::uint32_t>(tensor, slice.qweight);
    } else if (tensor.name == "qzeros") {
      add_cut<std::uint32_t>(required(layer, "qzeros"), slice.qzeros);
    } else if (tensor.name == "scales") {
      add_cut<std::uint16_t>(tensor, slice.scales);
    } else if (tensor.name == "bias") {
      add_bias(tensor, slice);
    } else if (tensor.name == "g_idx" && (cut == W4Cut::columns || reading.activation_order.value_or(false))) {
      add_cut<std::uint32_t>(tensor, {slice.first_k, slice.k, 0, 1});
    }
  }
}

}  // namespace cubit::tools
