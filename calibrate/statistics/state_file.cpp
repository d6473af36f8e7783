// Writes statistics to a safetensors file, and reads them back.
//
// The header's metadata hold {"format": "cubit.calibrate.1", "notes": …}. Each layer has these tensors, named
// LAYER.NAME. Sums that were not collected are missing:
//
//   counts              U64 [6]            batches, tokens, finite values, values that are not finite, the exponents of
//                                          both histograms as 32-bit integers, whether there is a histogram of values
//   range               F64 [2]            minimum and maximum
//   channel_range       F64 [2, channels]  minima and maxima
//   channel_non_finite  U64 [channels]     values that are not finite
//   histograms          U64 [3, bins]      positive values, negative values, token ranges
//   sums                I64 [2, limbs]     Σx and Σx²; see ExactSum
//   channel_sums        F64 [4, channels]  Σx and Σx², each a sum and its rounding errors
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cubit/calibrate.hpp>
#include <limits>
#include <map>
#include <numeric>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "calibrate/errors.hpp"
#include "calibrate/statistics/parts.hpp"
#include "files/output_file.hpp"
#include "files/safetensors/reader.hpp"

namespace cubit::calibrate {
namespace {

using tools::HeaderEntry;

constexpr const char* kFormatName = "cubit.calibrate.1";
constexpr const char* kRemedy = "give a file that write_statistics or cubit calibrate wrote";
constexpr std::size_t kCounts = 6;

/// Copies of a layer's members that are no arrays in memory.
struct Copies {
  std::array<std::uint64_t, kCounts> counts{};
  std::array<double, 2> range{};
  std::vector<std::int64_t> sums = std::vector<std::int64_t>(2 * ExactSum::kLimbs);
  std::vector<std::uint64_t> bins = std::vector<std::uint64_t>(std::size_t{3} * kHistogramBins);
};

/// Calls visit(name, type, shape, rows) for each tensor of a layer; `rows` are the parts of the tensor in memory. The
/// same list serves writing and, with parts that have their sizes and are not const, reading.
template <class Parts, class SomeCopies, class Visit>
void visit_tensors(Parts& parts, SomeCopies& copies, Visit visit) {
  using Byte = std::conditional_t<std::is_const_v<Parts>, const std::byte, std::byte>;
  using Rows = std::vector<std::span<Byte>>;
  const auto bytes = [](auto& values) {
    return std::span<Byte>(reinterpret_cast<Byte*>(std::data(values)), std::span(values).size_bytes());
  };
  auto& channels = parts.channels;
  const auto width = static_cast<std::int64_t>(channels.minimum.size());
  visit("counts", "U64", {kCounts}, Rows{bytes(copies.counts)});
  visit("range", "F64", {2}, Rows{bytes(copies.range)});
  visit("channel_range", "F64", {2, width}, Rows{bytes(channels.minimum), bytes(channels.maximum)});
  visit("channel_non_finite", "U64", {width}, Rows{bytes(channels.non_finite)});
  visit("histograms", "U64", {3, kHistogramBins}, Rows{bytes(copies.bins)});
  if (!parts.collect.moments) return;
  visit("sums", "I64", {2, ExactSum::kLimbs}, Rows{bytes(copies.sums)});
  visit("channel_sums", "F64", {4, width},
        Rows{bytes(channels.sums.high), bytes(channels.sums.low), bytes(channels.squares.high),
             bytes(channels.squares.low)});
}

Copies copies_of(const Statistics::Parts& parts) {
  Copies copies;
  const Histogram histogram = parts.histogram.view();
  const Histogram tokens = parts.token_ranges.view();
  const auto packed = std::bit_cast<std::uint64_t>(std::array<std::int32_t, 2>{histogram.exponent, tokens.exponent});
  copies.counts = {parts.batches,    parts.tokens, parts.count,
                   parts.non_finite, packed,       parts.collect.histogram ? 1U : 0U};
  copies.range = {parts.minimum, parts.maximum};
  const auto put = [](const auto& from, auto& to, std::size_t at) {
    std::copy(from.begin(), from.end(), to.begin() + static_cast<std::ptrdiff_t>(at));
  };
  put(parts.moments.sum.limbs(), copies.sums, 0);
  put(parts.moments.squares.limbs(), copies.sums, ExactSum::kLimbs);
  put(histogram.positive, copies.bins, 0);
  put(histogram.negative, copies.bins, kHistogramBins);
  put(tokens.positive, copies.bins, std::size_t{2} * kHistogramBins);
  return copies;
}

void take(const Copies& copies, Statistics::Parts& parts) {
  const auto exponents = std::bit_cast<std::array<std::int32_t, 2>>(copies.counts[4]);
  parts.batches = copies.counts[0];
  parts.tokens = copies.counts[1];
  parts.count = copies.counts[2];
  parts.non_finite = copies.counts[3];
  parts.minimum = copies.range[0];
  parts.maximum = copies.range[1];
  const std::span sums(copies.sums);
  const std::span bins(copies.bins);
  parts.moments.sum.set_limbs(sums.first(ExactSum::kLimbs));
  parts.moments.squares.set_limbs(sums.subspan(ExactSum::kLimbs));
  parts.histogram.set({exponents[0], bins.first(kHistogramBins), bins.subspan(kHistogramBins, kHistogramBins)});
  parts.token_ranges.set({exponents[1], bins.subspan(std::size_t{2} * kHistogramBins), {}});
}

/// The tensors of a file by name, and access to their bytes.
class StateReader {
 public:
  explicit StateReader(const std::string& path) : file_(path) {
    for (const HeaderEntry& tensor : file_.tensors()) tensors_.emplace(tensor.name, &tensor);
    const auto format = file_.metadata().find("format");
    if (format == file_.metadata().end() || format->second != kFormatName)
      refuse(path, "is not a file of statistics", kRemedy);
  }

  std::string notes() const {
    const auto found = file_.metadata().find("notes");
    return found == file_.metadata().end() ? "" : found->second;
  }
  /// The layers in the order of the file.
  std::vector<std::string> layers() const {
    constexpr std::string_view kSuffix = ".counts";
    std::vector<std::string> names;
    for (const HeaderEntry& tensor : file_.tensors())
      if (tensor.name.ends_with(kSuffix)) names.push_back(tensor.name.substr(0, tensor.name.size() - kSuffix.size()));
    return names;
  }
  const HeaderEntry* find(const std::string& name) const {
    const auto found = tensors_.find(name);
    return found == tensors_.end() ? nullptr : found->second;
  }
  void read(const std::string& name, const std::vector<std::int64_t>& shape, const std::string& type,
            const std::vector<std::span<std::byte>>& rows) const {
    const HeaderEntry* tensor = find(name);
    if (tensor == nullptr || tensor->shape != shape || tensor->type != type)
      refuse(file_.path(), "has no tensor " + name + " of the shape that its layer needs", kRemedy);
    std::uint64_t begin = 0;
    for (const std::span<std::byte> row : rows) {
      file_.read(*tensor, begin, row);
      begin += row.size();
    }
  }
  const std::string& path() const { return file_.path(); }

 private:
  tools::SafetensorsReader file_;
  std::map<std::string, const HeaderEntry*> tensors_;
};

/// Counts that adding values can give.
bool has_possible_counts(const Statistics::Parts& parts, const Copies& copies) {
  const auto sum_of = [](std::span<const std::uint64_t> counts) {
    return std::accumulate(counts.begin(), counts.end(), std::uint64_t{0});
  };
  const std::span bins(copies.bins);
  constexpr std::size_t kValueBins = std::size_t{2} * kHistogramBins;
  return parts.count + parts.non_finite == parts.tokens * parts.channels.minimum.size() &&
         sum_of(parts.channels.non_finite) == parts.non_finite &&
         sum_of(bins.first(kValueBins)) == (parts.collect.histogram ? parts.count : 0) &&
         sum_of(bins.subspan(kValueBins)) <= parts.tokens;
}

/// Ranges that adding values can give. Without values a range reaches from +infinity to -infinity.
bool has_possible_ranges(const Statistics::Parts& parts) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  double minimum = kInfinity;
  double maximum = -kInfinity;
  for (std::size_t i = 0; i < parts.channels.minimum.size(); ++i) {
    const double low = parts.channels.minimum[i];
    const double high = parts.channels.maximum[i];
    const bool has_values = parts.channels.non_finite[i] < parts.tokens;
    const bool is_empty = low == kInfinity && high == -kInfinity;
    if (has_values ? !(low <= high && std::isfinite(low) && std::isfinite(high)) : !is_empty) return false;
    minimum = std::min(minimum, low);
    maximum = std::max(maximum, high);
  }
  return parts.minimum == minimum && parts.maximum == maximum;
}

/// Both histograms have the least exponent that the largest magnitude allows.
bool has_possible_exponents(const Statistics::Parts& parts) {
  const double magnitude = parts.count == 0 ? 0 : std::max(-parts.minimum, parts.maximum);
  const int exponent = Bins::exponent_of(magnitude);
  return parts.token_ranges.view().exponent == exponent &&
         parts.histogram.view().exponent == (parts.collect.histogram ? exponent : Bins::exponent_of(0));
}

void require_consistent(const Statistics::Parts& parts, const Copies& copies, const std::string& path) {
  if (!has_possible_counts(parts, copies)) refuse(path, "has counts that contradict each other", kRemedy);
  if (!has_possible_ranges(parts) || !has_possible_exponents(parts))
    refuse(path, "has ranges that contradict each other", kRemedy);
}

Statistics read_layer(const StateReader& file, const std::string& layer) {
  Copies copies;
  const auto bytes = std::as_writable_bytes(std::span(copies.counts));
  file.read(layer + ".counts", {kCounts}, "U64", {bytes});
  Statistics statistics({.histogram = copies.counts[5] != 0, .moments = file.find(layer + ".sums") != nullptr});
  const HeaderEntry* range = file.find(layer + ".channel_range");
  if (range == nullptr || range->shape.size() != 2) refuse(file.path(), "has no channels of layer " + layer, kRemedy);
  statistics.parts().set_channels(static_cast<std::uint64_t>(range->shape[1]));
  visit_tensors(statistics.parts(), copies,
                [&](const char* name, const char* type, const std::vector<std::int64_t>& shape, const auto& rows) {
                  file.read(layer + "." + name, shape, type, rows);
                });
  take(copies, statistics.parts());
  require_consistent(statistics.parts(), copies, file.path());
  return statistics;
}

}  // namespace

void write_statistics(const std::string& path, std::span<const NamedStatistics> layers, const std::string& notes) {
  at_surface([&] {
    std::vector<HeaderEntry> entries;
    std::uint64_t offset = 0;
    // The first pass makes the header. The second writes the tensors, so only one layer's copies are in memory.
    const auto visit_layers = [&](auto visit) {
      for (const NamedStatistics& one : layers) {
        const Copies copies = copies_of(one.statistics.parts());
        visit_tensors(one.statistics.parts(), copies,
                      [&](const char* name, const char* type, const std::vector<std::int64_t>& shape,
                          const auto& rows) { visit(one.layer + "." + name, type, shape, rows); });
      }
    };
    visit_layers(
        [&](const std::string& name, const char* type, const std::vector<std::int64_t>& shape, const auto& rows) {
          std::uint64_t end = offset;
          for (const std::span<const std::byte> row : rows) end += row.size();
          entries.push_back({name, type, shape, {offset, end}});
          offset = end;
        });
    tools::OutputFile output(path);
    const std::string header = tools::format_header(entries, {{"format", kFormatName}, {"notes", notes}});
    output.append(std::as_bytes(std::span(header)));
    visit_layers([&](const std::string& /*name*/, const char* /*type*/, const std::vector<std::int64_t>& /*shape*/,
                     const auto& rows) {
      for (const std::span<const std::byte> row : rows) output.append(row);
    });
    output.finish();
  });
}

std::vector<NamedStatistics> read_statistics(const std::string& path, std::string* notes) {
  return at_surface([&] {
    const StateReader file(path);
    if (notes != nullptr) *notes = file.notes();
    std::vector<NamedStatistics> layers;
    for (const std::string& layer : file.layers()) layers.push_back({layer, read_layer(file, layer)});
    return layers;
  });
}

}  // namespace cubit::calibrate
