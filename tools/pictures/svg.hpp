// Writing SVG 1.1: shapes and text with the few attributes that the pictures here need.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cubit::tools {

struct Point {
  double x = 0;
  double y = 0;
};

struct Box {
  double x = 0;
  double y = 0;
  double width = 0;
  double height = 0;

  Point middle() const { return {x + width / 2, y + height / 2}; }
};

/// "#rrggbb" of a hue in degrees, saturation and lightness in 0 … 1.
std::string hsl(double hue, double saturation, double lightness);

enum class Anchor { start, middle, end };

struct TextStyle {
  double size = 12;
  Anchor anchor = Anchor::start;
  std::string fill = "#222222";
  bool bold = false;
};

struct ShapeStyle {
  std::string fill = "none";
  std::string stroke = "none";
  double stroke_width = 1;
  std::string kind = {};     ///< the element's class, by which scripts and tests find it
  std::string tooltip = {};  ///< shown by viewers where the mouse rests
  bool dashed = false;
};

/// A picture on white ground, in pixels from the upper left corner. Any text may be given: it is escaped.
class Svg {
 public:
  Svg(double width, double height, std::string_view title);

  void rectangle(const Box& box, const ShapeStyle& style);
  void circle(Point centre, double radius, const ShapeStyle& style);
  void line(const std::vector<Point>& points, const ShapeStyle& style);
  /// `at` is on the baseline.
  void text(Point at, std::string_view content, const TextStyle& style = {});
  /// One line in the middle of a box.
  void label(const Box& box, std::string_view content, TextStyle style = {});

  std::string finish() const;

 private:
  void shape(std::string_view element, const std::string& attributes, const ShapeStyle& style);

  std::string body_;
};

/// For element content and attributes. Control characters, which XML cannot hold, become U+FFFD.
std::string xml_escaped(std::string_view text);

/// About how wide a text is in the font that the pictures use.
double text_width(std::string_view text, double size);

}  // namespace cubit::tools
