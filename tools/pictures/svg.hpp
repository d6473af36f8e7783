// Writes SVG 1.1: shapes and text with the few attributes that this program's pictures need.
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

/// "#rrggbb" of a hue in degrees; saturation and lightness lie in 0 … 1.
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
  std::string kind = {};     ///< the element's class; scripts and tests find elements by their class
  std::string tooltip = {};  ///< viewers show this text under the mouse pointer
  bool dashed = false;
};

/// A picture on a white background; coordinates are pixels from the upper left corner. All text is escaped.
class Svg {
 public:
  Svg(double width, double height, std::string_view title);

  void rectangle(const Box& box, const ShapeStyle& style);
  void circle(Point centre, double radius, const ShapeStyle& style);
  void line(const std::vector<Point>& points, const ShapeStyle& style);
  /// Writes text. `at` is the anchor on the baseline.
  void text(Point at, std::string_view content, const TextStyle& style = {});
  /// Writes one line in the middle of a box.
  void label(const Box& box, std::string_view content, TextStyle style = {});

  std::string finish() const;

 private:
  void shape(std::string_view element, const std::string& attributes, const ShapeStyle& style);

  std::string body_;
};

/// Escapes text for element content and attributes. Control characters, which XML cannot hold, become U+FFFD.
std::string xml_escaped(std::string_view text);

/// The approximate width of a text in the pictures' font.
double text_width(std::string_view text, double size);

}  // namespace cubit::tools
