// Draws a fragment as a matrix of lanes and registers.
#include <fmt/format.h>

#include "tools/pictures/plan_pictures.hpp"
#include "tools/pictures/svg.hpp"

namespace cubit::tools {
namespace {

constexpr int kRegisterBits = 32;
constexpr double kCellWidth = 42;
constexpr double kCellHeight = 30;
constexpr double kLeft = 48;
constexpr double kTop = 92;
constexpr double kMargin = 20;
constexpr double kNarrowest = 620;  // the lines of text above a small matrix need this width

/// The four lanes of a group have shades of one hue.
std::string lane_fill(int lane) {
  const int group = lane / 4;
  return hsl(45.0 * group, 0.6, 0.9 - 0.055 * (lane % 4));
}

/// "r1.0": the low part of register 1. "r1": an element fills the register. "r2-3": an element takes two registers.
std::string register_label(int value, int element_bits) {
  const int first = value * element_bits / kRegisterBits;
  if (element_bits == kRegisterBits) return fmt::format("r{}", first);
  if (element_bits > kRegisterBits) return fmt::format("r{}-{}", first, first + element_bits / kRegisterBits - 1);
  return fmt::format("r{}.{}", first, value % (kRegisterBits / element_bits));
}

void draw_axes(Svg& svg, int rows, int columns) {
  const TextStyle style{.size = 10, .anchor = Anchor::middle, .fill = "#666666"};
  for (int column = 0; column < columns; ++column) {
    svg.text({kLeft + (column + 0.5) * kCellWidth, kTop - 6}, fmt::format("{}", column), style);
  }
  for (int row = 0; row < rows; ++row) {
    svg.text({kLeft - 8, kTop + row * kCellHeight + 19}, fmt::format("{}", row), {10, Anchor::end, "#666666"});
  }
}

void draw_element(Svg& svg, int row, int column, int lane, const std::string& label) {
  const Box box{kLeft + column * kCellWidth, kTop + row * kCellHeight, kCellWidth, kCellHeight};
  svg.rectangle(box, {.fill = lane_fill(lane),
                      .stroke = "#ffffff",
                      .kind = "cell",
                      .tooltip = fmt::format("row {}, column {}: lane {}, {}", row, column, lane, label)});
  svg.label({box.x, box.y + 2, box.width, 14}, fmt::format("T{}", lane), {.size = 11, .bold = true});
  svg.label({box.x, box.y + 14, box.width, 13}, label, {.size = 9.5, .fill = "#444444"});
}

}  // namespace

std::string fragment_picture(const nlohmann::json& fragment) {
  const int rows = fragment.at("rows").get<int>();
  const int columns = fragment.at("columns").get<int>();
  const int bits = fragment.at("element_bits").get<int>();
  const auto name = fragment.at("name").get<std::string>();
  Svg svg(std::max(kLeft + columns * kCellWidth + kMargin, kNarrowest), kTop + rows * kCellHeight + kMargin, name);
  svg.text({kMargin, 30}, fmt::format("{}: {} x {} elements of {} bits", name, rows, columns, bits),
           {.size = 17, .bold = true});
  svg.text({kMargin, 49}, fmt::format("PTX ISA, \"{}\"", fragment.at("section").get<std::string>()),
           {.size = 11.5, .fill = "#555555"});
  svg.text({kMargin, 66}, "T5 is lane 5; r1.0 is the lowest part of its register 1. Colours show groups of four lanes.",
           {.size = 11.5, .fill = "#555555"});
  draw_axes(svg, rows, columns);
  int lane = 0;
  for (const auto& values : fragment.at("elements")) {
    int value = 0;
    for (const auto& element : values) {
      draw_element(svg, element.at(0), element.at(1), lane, register_label(value++, bits));
    }
    ++lane;
  }
  return svg.finish();
}

}  // namespace cubit::tools
