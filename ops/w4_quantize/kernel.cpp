// Turns a w4_quantize descriptor into a kernel's source and report, and public arguments into a launch.
#include <cubit/w4_quantize.h>
#include <fmt/format.h>

#include <cstring>

#include "base/error.hpp"
#include "base/lifetime.hpp"
#include "ops/argument_checks.hpp"
#include "ops/element/element.hpp"
#include "ops/one_pass.hpp"
#include "ops/w4_quantize/w4_quantize.hpp"
#include "templates/kernels/quantisation/w4_quantize_arguments.h"

namespace cubit::ops::w4_quantize {
namespace {

using Arguments = cubit_w4_quantize_arguments;

using one_pass::kThreads;
constexpr int kThreadRows = 8;                                   ///< output features of a thread
constexpr int kThreadColumns = 8;                                ///< input features of a thread at a time
constexpr std::int64_t kMostColumns = std::int64_t{65535} * 32;  ///< largest n: bounded by the grid's second dimension
constexpr std::int64_t kMostK = std::int64_t{1} << 30;

int row_lanes(const W4Quantize& descriptor) { return descriptor.group_size == 0 ? 32 : 16; }
int block_rows(const W4Quantize& descriptor) { return kThreads / row_lanes(descriptor) * kThreadRows; }

std::vector<Field<W4Quantize>> make_fields() {
  using Descriptor = W4Quantize;
  return {word_field<Descriptor, W4Format>(
              {"format", "gptq, gptq_v2, awq, symmetric", "gptq", "how the checkpoint stores weights and zeros"},
              &Descriptor::format,
              {{"gptq", W4Format::gptq},
               {"gptq_v2", W4Format::gptq_v2},
               {"awq", W4Format::awq},
               {"symmetric", W4Format::symmetric}}),
          word_field<Descriptor, int>(
              {"group_size", "16, 32, 64, 128, all", "128", "input features that share a scale"},
              &Descriptor::group_size, {{"16", 16}, {"32", 32}, {"64", 64}, {"128", 128}, {"all", 0}}),
          word_field<Descriptor, W4Scheme>({"scheme", "asymmetric, symmetric", "asymmetric",
                                            "whether zeros are fitted, or all are 8 (for formats that store zeros)"},
                                           &Descriptor::scheme,
                                           {{"asymmetric", W4Scheme::asymmetric}, {"symmetric", W4Scheme::symmetric}}),
          word_field<Descriptor, Element>({"input", "fp16, bf16", "fp16", "type of the weights"}, &Descriptor::input,
                                          {{"fp16", Element::fp16}, {"bf16", Element::bf16}})};
}

void check_tensors(const W4Quantize& descriptor, const PointerChecks& pointers, const Arguments& arguments) {
  pointers.check(&arguments);
  require_alignment("weights", arguments.weights, &arguments.weight_stride, 1, 2, 16);
  require_alignment("qweight", arguments.qweight, nullptr, 0, 1, descriptor.format == W4Format::awq ? 4 : 16,
                    "align it");
  require_alignment("scales", arguments.scales, nullptr, 0, 1, 16, "align it");
  require_alignment("qzeros", arguments.qzeros, nullptr, 0, 1, 4, "align it");
  require_alignment("max_error", arguments.max_error, nullptr, 0, 1, 16, "align it");
  require_alignment("rms_error", arguments.rms_error, nullptr, 0, 1, 16, "align it");
}

}  // namespace

const std::vector<Field<W4Quantize>>& fields() {
  static const auto& table = never_destroyed(make_fields());
  return table;
}

W4Quantize parse(std::string_view text) {
  const W4Quantize descriptor = parse_fields(text, fields());
  for (const auto& [name, value] : split_fields(text)) {
    if (name != "scheme" || descriptor.stores_zeros()) continue;
    throw Failure(Status::invalid_argument, fmt::format("descriptor \"{}\"", text),
                  "the field scheme does not apply to format=symmetric, whose zeros are all 8",
                  "leave scheme out or ask for format=gptq, gptq_v2 or awq");
  }
  return descriptor;
}

std::int64_t groups_of(const W4Quantize& descriptor, std::int64_t k) {
  const std::int64_t size = descriptor.group_size;
  return size == 0 ? 1 : (k + size - 1) / size;
}

void check_sizes(std::int64_t n, std::int64_t k) {
  require_argument(n >= 0 && n <= kMostColumns && n % 8 == 0, "n", "it must be a multiple of 8 from 0 to 2097120", n);
  require_argument(k >= 8 && k <= kMostK && k % 8 == 0, "k", "it must be a multiple of 8 from 8 to 2^30", k);
}

codegen::KernelSource make_source(const W4Quantize& descriptor, const codegen::Architecture& architecture) {
  codegen::PlanHeader header(descriptor.text());
  header.include("core/types.cuh").include("weight_format/w4_packing.cuh").include("weight_format/w4_rounding.cuh");
  header.constant("kThreads", kThreads).constant("kGroupSize", descriptor.group_size);
  header.flag("kStoresZeros", descriptor.stores_zeros()).constant("kZeroOffset", descriptor.zero_offset());
  header.alias("Input", device_type(descriptor.input));
  header.alias("Fit", descriptor.fits_zeros() ? fmt::format("cubit::AsymmetricFit<{}>", descriptor.zero_offset())
                                              : std::string("cubit::SymmetricFit"));
  header.alias("Packing", descriptor.format == W4Format::awq ? "cubit::PackedByN" : "cubit::PackedByK");
  return one_pass::make_source(descriptor.text(), "quantisation", "w4_quantize", header, architecture);
}

PlanReport make_report(const W4Quantize& descriptor) {
  const bool is_all = descriptor.group_size == 0;
  PlanReport report;
  report.family = "w4_quantize";
  report.decisions = {
      {"weights per thread", "8 x 8",
       "eight 16-byte loads in flight; a thread has all weights of its words in either layout"},
      {"lanes per row", std::to_string(row_lanes(descriptor)),
       is_all ? "a warp handles all of k" : "128 input features: a whole number of groups"},
      {"passes", is_all ? "2" : "1",
       is_all ? "the first pass finds the extremes of all of k" : "a group's weights stay in registers"},
      {"scheme", descriptor.fits_zeros() ? "asymmetric" : "symmetric",
       descriptor.stores_zeros() ? "as the descriptor asks" : "format=symmetric has no zeros"},
      {"threads", std::to_string(kThreads), fmt::format("a block has {} output features", block_rows(descriptor))}};
  return report;
}

Launch encode(const W4Quantize& descriptor, const PointerChecks& pointers, const void* public_arguments) {
  const auto& arguments = checked_arguments<Arguments>(public_arguments, "cubit_w4_quantize_arguments");
  check_sizes(arguments.n, arguments.k);
  Launch launch;
  launch.empty = arguments.n == 0;
  if (launch.empty) return launch;
  check_tensors(descriptor, pointers, arguments);
  W4QuantizeArguments parameters{};
  parameters.weights = static_cast<const char*>(arguments.weights);
  parameters.row_stride = 2 * arguments.weight_stride;
  parameters.qweight = static_cast<char*>(arguments.qweight);
  if (descriptor.stores_zeros()) parameters.qzeros = static_cast<char*>(arguments.qzeros);
  parameters.scales = static_cast<char*>(arguments.scales);
  parameters.max_error = reinterpret_cast<char*>(arguments.max_error);
  parameters.rms_error = reinterpret_cast<char*>(arguments.rms_error);
  parameters.n = arguments.n;
  parameters.k = arguments.k;
  const int step = row_lanes(descriptor) * kThreadColumns;
  const auto across_k = static_cast<unsigned>(descriptor.group_size == 0 ? 1 : (arguments.k + step - 1) / step);
  const auto rows = static_cast<unsigned>(block_rows(descriptor));
  launch.shape = {{across_k, (static_cast<unsigned>(arguments.n) + rows - 1) / rows, 1}, kThreads, 0};
  launch.parameter_bytes = sizeof parameters;
  std::memcpy(launch.parameters.data(), &parameters, sizeof parameters);
  return launch;
}

}  // namespace cubit::ops::w4_quantize
