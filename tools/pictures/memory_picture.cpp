// Draws a block's dynamic shared memory: one band of bytes per phase and owner, to scale.
#include <fmt/format.h>

#include <algorithm>

#include "tools/pictures/plan_pictures.hpp"
#include "tools/pictures/svg.hpp"

namespace cubit::tools {
namespace {

using nlohmann::json;

constexpr double kWidth = 940;
constexpr double kLeft = 90;
constexpr double kMargin = 20;
constexpr double kHead = 78;
constexpr double kPhaseHead = 34;
constexpr double kBand = 46;  // height of an owner's band: the bytes, and below them the addresses
constexpr double kBandBytes = 28;
constexpr double kRegionLabelSize = 11;

/// Regions that are adjacent in the list and share phase and owner.
struct Band {
  std::string phase;
  std::string owner;
  std::vector<json> regions;
  int begin() const { return regions.front().at("offset").get<int>(); }
  int end() const { return regions.back().at("offset").get<int>() + regions.back().at("bytes").get<int>(); }
  int bytes() const { return end() - begin(); }
};

std::vector<Band> bands_of(const json& regions) {
  std::vector<Band> bands;
  for (const json& region : regions) {
    const auto phase = region.at("phase").get<std::string>();
    const auto owner = region.at("owner").get<std::string>();
    if (bands.empty() || bands.back().phase != phase || bands.back().owner != owner) {
      bands.push_back({phase, owner, {}});
    }
    bands.back().regions.push_back(region);
  }
  return bands;
}

/// The number of bytes of the widest band, which sets the scale of all bands.
int widest(const std::vector<Band>& bands) {
  int bytes = 1;
  for (const Band& band : bands) bytes = std::max(bytes, band.bytes());
  return bytes;
}

double phase_heads(const std::vector<Band>& bands) {
  double height = 0;
  for (std::size_t i = 0; i < bands.size(); ++i) {
    if (i == 0 || bands[i].phase != bands[i - 1].phase) height += kPhaseHead;
  }
  return height;
}

/// The longest text that fits the box; "" if no text fits.
std::string fitting(const Box& box, const std::vector<std::string>& texts) {
  for (const std::string& text : texts) {
    if (text_width(text, kRegionLabelSize) < box.width - 6) return text;
  }
  return "";
}

void draw_region(Svg& svg, const json& region, const Box& box, std::size_t index) {
  const auto name = region.at("name").get<std::string>();
  const int offset = region.at("offset").get<int>();
  const int bytes = region.at("bytes").get<int>();
  const std::string with_bytes = fmt::format("{}: {} bytes", name, bytes);
  svg.rectangle(box, {.fill = hsl(205 + 67.0 * static_cast<double>(index), 0.5, 0.84),
                      .stroke = "#ffffff",
                      .kind = "region",
                      .tooltip = fmt::format("{} … {}: {}", offset, offset + bytes - 1, with_bytes)});
  svg.label(box, fitting(box, {with_bytes, name}), {.size = kRegionLabelSize});
  const std::string address = fmt::format("{}", offset);
  if (text_width(address, 9) < box.width) {
    svg.text({box.x, box.y + box.height + 10}, address, {.size = 9, .fill = "#777777"});
  }
}

/// A remark at the end of the band lists the regions that are too narrow for their names.
std::string not_labelled(const Band& band, double scale) {
  std::string text;
  for (const json& region : band.regions) {
    const auto name = region.at("name").get<std::string>();
    const int bytes = region.at("bytes").get<int>();
    if (!fitting({0, 0, bytes * scale, kBandBytes}, {name}).empty()) continue;
    text += fmt::format("{}{}: {} bytes", text.empty() ? "" : ", ", name, bytes);
  }
  return text;
}

void draw_band(Svg& svg, const Band& band, double top, double scale) {
  svg.text({kLeft - 10, top + 18}, band.owner, {.size = 12, .anchor = Anchor::end});
  for (std::size_t i = 0; i < band.regions.size(); ++i) {
    const json& region = band.regions[i];
    const double x = kLeft + (region.at("offset").get<int>() - band.begin()) * scale;
    draw_region(svg, region, {x, top, region.at("bytes").get<int>() * scale, kBandBytes}, i);
  }
  const double end = kLeft + band.bytes() * scale;
  std::string remark = fmt::format("{}", band.end());
  const std::string narrow = not_labelled(band, scale);
  if (!narrow.empty()) remark = narrow + "; end " + remark;
  // A band that is too short for a remark below it has the remark at its right.
  const bool is_short = text_width(remark, 9) > end - kLeft;
  const Point at = is_short ? Point{end + 8, top + 18} : Point{end, top + kBandBytes + 10};
  svg.text(at, remark, {.size = 9, .anchor = is_short ? Anchor::start : Anchor::end, .fill = "#777777"});
}

}  // namespace

std::string memory_picture(const json& memory, const std::string& subject) {
  const std::vector<Band> bands = bands_of(memory.at("regions"));
  const double scale = (kWidth - kLeft - kMargin) / widest(bands);
  const double height = kHead + phase_heads(bands) + static_cast<double>(bands.size()) * kBand + kMargin;
  const std::string title = fmt::format("Shared memory: {} bytes per block", memory.at("bytes").get<int>());
  Svg svg(kWidth, height, title);
  svg.text({kMargin, 30}, title, {.size = 17, .bold = true});
  svg.text({kMargin, 49}, subject, {.size = 11.5, .fill = "#555555"});
  svg.text({kMargin, 66}, "Phases use the same bytes one after another. The number below a region is its first byte.",
           {.size = 11.5, .fill = "#555555"});
  double top = kHead;
  for (std::size_t i = 0; i < bands.size(); ++i) {
    if (i == 0 || bands[i].phase != bands[i - 1].phase) {
      svg.text({kMargin, top + 22}, bands[i].phase, {.size = 13, .bold = true});
      top += kPhaseHead;
    }
    draw_band(svg, bands[i], top, scale);
    top += kBand;
  }
  return svg.finish();
}

}  // namespace cubit::tools
