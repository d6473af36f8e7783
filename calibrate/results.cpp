// Writes ranges as JSON and as tensors with the names of compressed-tensors.
#include <algorithm>
#include <cstdint>
#include <cubit/calibrate.hpp>
#include <deque>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "calibrate/errors.hpp"
#include "files/output_file.hpp"
#include "files/text/format.hpp"

namespace cubit::calibrate {
namespace {

/// The scale as the file stores it.
float stored_scale(const LayerRange& one) {
  if (one.range.scale > std::numeric_limits<float>::max())
    refuse("layer " + one.layer + ", scale " + nlohmann::json(one.range.scale).dump(), "exceeds the largest F32 number",
           "leave the layer out, or give activations of smaller magnitude");
  return static_cast<float>(one.range.scale);
}

/// The format of the scales, if it is the same for all layers. A scale alone does not tell.
tools::Metadata metadata_of(std::span<const LayerRange> ranges) {
  const auto is_other = [&](const LayerRange& one) { return one.choice.format != ranges.front().choice.format; };
  if (ranges.empty() || std::any_of(ranges.begin(), ranges.end(), is_other)) return {};
  return {{"input_format", std::string(text_of(ranges.front().choice.format))}};
}

}  // namespace

std::string ranges_json(std::span<const LayerRange> ranges) {
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  for (const LayerRange& one : ranges) {
    nlohmann::ordered_json entry = {{"method", text_of(one.choice.method)}, {"format", text_of(one.choice.format)}};
    if (one.choice.method == Method::percentile) entry["percentile"] = one.choice.percentile;
    entry.update({{"low", one.range.low},
                  {"high", one.range.high},
                  {"scale", one.range.scale},
                  {"zero_point", one.range.zero_point},
                  {"clipped", one.range.clipped},
                  {"error", one.range.error}});
    json[one.layer] = entry;
  }
  return tools::json_text(json);
}

void write_scales(const std::string& path, std::span<const LayerRange> ranges) {
  at_surface([&] {
    std::deque<float> scales;  // whose elements stay where they are
    std::deque<std::int8_t> zero_points;
    std::vector<tools::TensorView> tensors;
    for (const LayerRange& one : ranges) {
      const float& scale = scales.emplace_back(stored_scale(one));
      tensors.push_back({one.layer + ".input_scale", "F32", {1}, std::as_bytes(std::span(&scale, 1))});
    }
    for (const LayerRange& one : ranges) {
      if (one.choice.format != Format::int8_asymmetric) continue;
      const std::int8_t& zero = zero_points.emplace_back(static_cast<std::int8_t>(one.range.zero_point));
      tensors.push_back({one.layer + ".input_zero_point", "I8", {1}, std::as_bytes(std::span(&zero, 1))});
    }
    tools::OutputFile(path).commit(tensors, metadata_of(ranges));
  });
}

}  // namespace cubit::calibrate
