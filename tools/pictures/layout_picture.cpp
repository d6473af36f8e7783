// Draws layouts of matrices of bytes as address maps: a matrix of 32 x 64 elements, and its first 4 x 16 elements with
// their addresses.
#include <fmt/format.h>
#include <cubit/matrix_layout.hpp>

#include "tools/pictures/plan_pictures.hpp"
#include "tools/pictures/svg.hpp"

namespace cubit::tools {
namespace {

constexpr int kRows = 32;
constexpr int kColumns = 64;
constexpr int kZoomRows = 4;
constexpr int kZoomColumns = 16;
constexpr double kMargin = 20;
constexpr double kHead = 78;
constexpr double kPanelHead = 30;
constexpr double kLabels = 34;  // width of the row numbers, height of the column numbers
constexpr double kWidth = 2 * kMargin + kLabels + 14 * kColumns;

/// A layout that has a picture.
struct DrawnLayout {
  const char* file;
  const char* title;
  const char* remark;
  std::int64_t (*address)(int row, int column);
};

template <MatrixLayout Layout>
std::int64_t address_in(int row, int column) {
  constexpr int kStride = Layout == MatrixLayout::row ? kColumns : kLayoutBlockColumns * kRows;
  return offset_of(Layout, kStride, row, column);
}

constexpr DrawnLayout kDrawn[] = {
    {"layout-row.svg", "Row-major", "The elements of a row follow one another.", address_in<MatrixLayout::row>},
    {"layout-column.svg", "Column-major", "The elements of a column follow one another.",
     [](int row, int column) -> std::int64_t { return std::int64_t{column} * kRows + row; }},
    {"layout-col32.svg", "COL32", "Blocks of 32 columns are row-major inside.", address_in<MatrixLayout::col32>},
    {"layout-col4-4r2-8c.svg", "COL4_4R2_8C (operand B on Turing)",
     "16 bytes hold four columns of four rows of one parity; 256 bytes hold 8 rows of 32 columns.",
     address_in<MatrixLayout::col4_4r2_8c>},
    {"layout-col32-2r-4r4.svg", "COL32_2R_4R4 (operand B on Ampere)",
     "32 bytes hold 32 columns of a row; 1024 bytes hold 32 rows in another order.",
     address_in<MatrixLayout::col32_2r_4r4>}};

/// A part of the matrix, from its first element on.
struct Panel {
  const char* title;
  int rows;
  int columns;
  double cell_width;
  double cell_height;
  const char* kind;  ///< class of the cells
  bool has_addresses;

  double height() const { return kPanelHead + kLabels + rows * cell_height; }
};

constexpr Panel kPanels[] = {
    {"The first 4 x 16 elements with their addresses", kZoomRows, kZoomColumns, 56, 30, "zoomed", true},
    {"The matrix of 32 x 64 elements, coloured by address", kRows, kColumns, 14, 14, "cell", false}};

/// The hue follows the address; every other run of 32 bytes is darker.
std::string colour(std::int64_t address) {
  constexpr double kHues = 300;
  constexpr int kRun = 32;
  return hsl(kHues * static_cast<double>(address) / (kRows * kColumns), 0.55, address / kRun % 2 == 0 ? 0.84 : 0.7);
}

void draw_panel(Svg& svg, const DrawnLayout& layout, const Panel& panel, double top) {
  svg.text({kMargin, top + 16}, panel.title, {.size = 13, .bold = true});
  const Point first = {kMargin + kLabels, top + kPanelHead + kLabels};
  const int step = panel.has_addresses ? 1 : 8;
  for (int column = 0; column < panel.columns; column += step) {
    svg.text({first.x + (column + 0.5) * panel.cell_width, first.y - 8}, fmt::format("{}", column),
             {.size = 9, .anchor = Anchor::middle, .fill = "#777777"});
  }
  for (int row = 0; row < panel.rows; ++row) {
    const double y = first.y + row * panel.cell_height;
    if (row % step == 0) {
      svg.text({first.x - 8, y + panel.cell_height / 2 + 3}, fmt::format("{}", row),
               {.size = 9, .anchor = Anchor::end, .fill = "#777777"});
    }
    for (int column = 0; column < panel.columns; ++column) {
      const std::int64_t address = layout.address(row, column);
      const Box box{first.x + column * panel.cell_width, y, panel.cell_width, panel.cell_height};
      svg.rectangle(box, {.fill = colour(address),
                          .stroke = "#ffffff",
                          .stroke_width = 0.5,
                          .kind = panel.kind,
                          .tooltip = fmt::format("row {}, column {}: address {}", row, column, address)});
      if (panel.has_addresses) svg.label(box, fmt::format("{}", address), {.size = 11});
    }
  }
}

std::string layout_picture(const DrawnLayout& layout) {
  double height = kHead + kMargin;
  for (const Panel& panel : kPanels) height += panel.height() + kMargin;
  Svg svg(kWidth, height, layout.title);
  svg.text({kMargin, 30}, layout.title, {.size = 17, .bold = true});
  svg.text({kMargin, 49}, layout.remark, {.size = 11.5, .fill = "#555555"});
  svg.text({kMargin, 66}, "The hue follows the address. Every other run of 32 bytes is darker.",
           {.size = 11.5, .fill = "#555555"});
  double top = kHead;
  for (const Panel& panel : kPanels) {
    draw_panel(svg, layout, panel, top);
    top += panel.height() + kMargin;
  }
  return svg.finish();
}

}  // namespace

std::vector<Picture> layout_pictures() {
  std::vector<Picture> pictures;
  for (const DrawnLayout& layout : kDrawn) pictures.push_back({layout.file, layout_picture(layout)});
  return pictures;
}

}  // namespace cubit::tools
