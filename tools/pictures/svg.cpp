#include "tools/pictures/svg.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace cubit::tools {
namespace {

constexpr double kMeanGlyphWidth =
    0.56;  // share of the font size; the mean of digits and lower-case letters of sans-serif faces
constexpr double kMiddleToBaseline = 0.35;

const char* anchor_name(Anchor anchor) {
  constexpr std::array<const char*, 3> kNames = {"start", "middle", "end"};
  return kNames[static_cast<std::size_t>(anchor)];
}

}  // namespace

std::string xml_escaped(std::string_view text) {
  std::string escaped;
  for (const char character : text) {
    switch (character) {
      case '&':
        escaped += "&amp;";
        break;
      case '<':
        escaped += "&lt;";
        break;
      case '>':
        escaped += "&gt;";
        break;
      case '"':
        escaped += "&quot;";
        break;
      default:
        if (static_cast<unsigned char>(character) < ' ') {
          escaped += "\xef\xbf\xbd";
        } else {
          escaped += character;
        }
    }
  }
  return escaped;
}

double text_width(std::string_view text, double size) {
  return kMeanGlyphWidth * size * static_cast<double>(text.size());
}

std::string hsl(double hue, double saturation, double lightness) {
  const double chroma = saturation * std::min(lightness, 1 - lightness);
  const auto channel = [&](double offset) {  // CSS Color Module Level 4, "HSL Colors"
    const double k = std::fmod(offset + hue / 30, 12);
    const double value = lightness - chroma * std::max(-1.0, std::min({k - 3, 9 - k, 1.0}));
    return static_cast<int>(std::lround(255 * value));
  };
  return fmt::format("#{:02x}{:02x}{:02x}", channel(0), channel(8), channel(4));
}

Svg::Svg(double width, double height, std::string_view title)
    : body_(fmt::format(R"(<svg xmlns="http://www.w3.org/2000/svg" width="{0:.0f}" height="{1:.0f}" viewBox="0 0 )"
                        R"({0:.0f} {1:.0f}" )"
                        "font-family=\"Helvetica, Arial, DejaVu Sans, sans-serif\">\n<title>{2}</title>\n"
                        "<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n",
                        width, height, xml_escaped(title))) {}

void Svg::shape(std::string_view element, const std::string& attributes, const ShapeStyle& style) {
  body_ += fmt::format(R"(<{} {} fill="{}")", element, attributes, style.fill);
  if (style.stroke != "none") {
    body_ += fmt::format(R"( stroke="{}" stroke-width="{:.4g}")", style.stroke, style.stroke_width);
  }
  if (style.dashed) body_ += R"( stroke-dasharray="4 3")";
  if (!style.kind.empty()) body_ += fmt::format(R"( class="{}")", xml_escaped(style.kind));
  if (style.tooltip.empty()) {
    body_ += "/>\n";
  } else {
    body_ += fmt::format("><title>{}</title></{}>\n", xml_escaped(style.tooltip), element);
  }
}

void Svg::rectangle(const Box& box, const ShapeStyle& style) {
  shape("rect",
        fmt::format(R"(x="{:.6g}" y="{:.6g}" width="{:.6g}" height="{:.6g}")", box.x, box.y, box.width, box.height),
        style);
}

void Svg::circle(Point centre, double radius, const ShapeStyle& style) {
  shape("circle", fmt::format(R"(cx="{:.6g}" cy="{:.6g}" r="{:.4g}")", centre.x, centre.y, radius), style);
}

void Svg::line(const std::vector<Point>& points, const ShapeStyle& style) {
  std::string path;
  for (const Point& point : points) path += fmt::format("{}{:.6g},{:.6g}", path.empty() ? "" : " ", point.x, point.y);
  shape("polyline", R"(points=")" + path + R"(")", style);
}

void Svg::text(Point at, std::string_view content, const TextStyle& style) {
  if (content.empty()) return;
  body_ +=
      fmt::format(R"(<text x="{:.6g}" y="{:.6g}" font-size="{:.4g}" fill="{}")", at.x, at.y, style.size, style.fill);
  if (style.anchor != Anchor::start) body_ += fmt::format(R"( text-anchor="{}")", anchor_name(style.anchor));
  if (style.bold) body_ += R"( font-weight="bold")";
  body_ += fmt::format(">{}</text>\n", xml_escaped(content));
}

void Svg::label(const Box& box, std::string_view content, TextStyle style) {
  style.anchor = Anchor::middle;
  const Point middle = box.middle();
  text({middle.x, middle.y + kMiddleToBaseline * style.size}, content, style);
}

std::string Svg::finish() const { return body_ + "</svg>\n"; }

}  // namespace cubit::tools
