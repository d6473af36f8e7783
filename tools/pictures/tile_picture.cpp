// Draws a tile in shared memory: lines of 32 banks, the places of its rows, and the words of each access.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "tools/pictures/plan_pictures.hpp"
#include "tools/pictures/svg.hpp"

namespace cubit::tools {
namespace {

using nlohmann::json;

constexpr int kBanks = 32;
constexpr int kWordBytes = 4;
constexpr int kLineBytes = kBanks * kWordBytes;
constexpr int kMostMemoryLines = 64;  // most memory lines of the first panel; layouts repeat much earlier
constexpr int kVectorBytes = 16;      // bytes of the widest access; swizzles move blocks of this size

constexpr double kCellWidth = 24;
constexpr double kCellHeight = 15;
constexpr double kLeft = 70;
constexpr double kMargin = 20;
constexpr double kHead = 103;       // height of the picture's title
constexpr double kPanelHead = 42;   // height of a panel's title and of the bank numbers
constexpr double kPanelSpace = 26;  // space below a panel

/// The words of one instance of an access: the lanes that touch each word, and the words that wait.
struct Instance {
  int index = 0;
  int wavefronts = 0;
  int ideal = 0;
  std::map<int, std::vector<int>> lanes = {};  ///< address of a word -> the lanes that touch it
  std::set<int> waiting = {};                  ///< words whose bank serves another word of the same phase first
};

/// Counts as codegen/tile_layout.hpp defines it: distinct words per bank, phase by phase.
Instance read_instance(const json& access, int index) {
  Instance result{.index = index};
  const json& addresses = access.at("addresses").at(static_cast<std::size_t>(index));
  const int phase_lanes = access.at("lanes_per_phase").get<int>();
  const int bytes = access.at("bytes_per_lane").get<int>();
  for (int first = 0; first < static_cast<int>(addresses.size()); first += phase_lanes) {
    std::set<int> words;
    for (int lane = first; lane < first + phase_lanes; ++lane) {
      const json& address = addresses.at(static_cast<std::size_t>(lane));
      if (address.is_null()) continue;
      const int begin = address.get<int>();
      for (int word = begin / kWordBytes; word <= (begin + bytes - 1) / kWordBytes; ++word) {
        words.insert(word * kWordBytes);
        result.lanes[word * kWordBytes].push_back(lane);
      }
    }
    const int ideal = (static_cast<int>(words.size()) + kBanks - 1) / kBanks;
    std::map<int, int> per_bank;
    int wavefronts = 0;
    for (const int word : words) {
      const int place = ++per_bank[word / kWordBytes % kBanks];
      if (place > ideal) result.waiting.insert(word);
      wavefronts = std::max(wavefronts, place);
    }
    result.wavefronts += wavefronts;
    result.ideal += ideal;
  }
  return result;
}

/// The instance with the most wavefronts above the ideal; the first one if several are equal.
Instance worst_instance(const json& access) {
  std::optional<Instance> worst;
  for (std::size_t i = 0; i < access.at("addresses").size(); ++i) {
    Instance instance = read_instance(access, static_cast<int>(i));
    if (!worst || instance.wavefronts - instance.ideal > worst->wavefronts - worst->ideal) worst = std::move(instance);
  }
  return worst.value_or(Instance{});
}

/// The lanes of a phase are shades of one hue. If all 32 lanes form one phase, the hue changes from lane to lane.
std::string lane_fill(int lane, int phase_lanes) {
  if (phase_lanes == kBanks) return hsl(11.25 * lane, 0.65, 0.84);
  const int phase = lane / phase_lanes;
  const double within = static_cast<double>(lane % phase_lanes) / phase_lanes;
  return hsl(40 + 360.0 * phase_lanes / kBanks * phase, 0.6, 0.9 - 0.22 * within);
}

/// Draws memory lines `first` … `last` with their addresses and the bank numbers above.
class Panel {
 public:
  Panel(Svg& svg, double top, int first_line, int last_line) : svg_(svg), top_(top + kPanelHead), first_(first_line) {
    const TextStyle small{.size = 9, .anchor = Anchor::middle, .fill = "#777777"};
    for (int bank = 0; bank < kBanks; ++bank) {
      svg.text({kLeft + (bank + 0.5) * kCellWidth, top_ - 4}, fmt::format("{}", bank), small);
    }
    svg.text({kLeft - 8, top_ - 4}, "byte / bank", {.size = 9, .anchor = Anchor::end, .fill = "#777777"});
    for (int line = first_line; line <= last_line; ++line) {
      const Box box{kLeft, top_ + (line - first_line) * kCellHeight, kBanks * kCellWidth, kCellHeight};
      svg.rectangle(box, {.fill = "#f4f4f4", .stroke = "#ffffff"});
      svg.text({kLeft - 8, box.y + 11}, fmt::format("{}", line * kLineBytes), {9, Anchor::end, "#777777"});
    }
  }
  void word(int address, const ShapeStyle& style, const std::string& label, double size = 9) {
    const int bank = address / kWordBytes % kBanks;
    const int line = address / kLineBytes - first_;
    const Box box{kLeft + bank * kCellWidth, top_ + line * kCellHeight, kCellWidth, kCellHeight};
    svg_.rectangle(box, style);
    svg_.label(box, label, {.size = size});
  }

 private:
  Svg& svg_;
  double top_;
  int first_;
};

double panel_height(int lines) { return kPanelHead + lines * kCellHeight + kPanelSpace; }

void panel_title(Svg& svg, double top, const std::string& title, const std::string& remark) {
  svg.text({kMargin, top + 16}, title, {.size = 13, .bold = true});
  svg.text({kMargin + 1.08 * text_width(title, 13) + 14, top + 16}, remark, {.size = 11.5, .fill = "#555555"});
}

/// The colour of a row, darker with each 16-byte vector, so that a swizzle within the row is visible. The golden angle
/// separates the colours of adjacent rows.
ShapeStyle row_style(int row, double part_of_row) {
  return {.fill = hsl(137.5 * row, 0.5, 0.93 - 0.16 * part_of_row), .stroke = "#ffffff", .kind = "word"};
}

void draw_layout(Svg& svg, double top, const json& tile, int lines) {
  const int all_lines = (tile.at("bytes").get<int>() + kLineBytes - 1) / kLineBytes;
  const std::string part = lines < all_lines ? fmt::format("the first {} of {} lines; ", lines, all_lines) : "";
  panel_title(svg, top, "Where rows lie", part + "each word shows its row and its 16-byte vector; grey: padding");
  Panel panel(svg, top, 0, lines - 1);
  const int row_bytes = tile.at("row_bytes").get<int>();
  int row = 0;
  for (const json& words : tile.at("words")) {
    int byte = 0;
    for (const json& word : words) {
      const int address = word.get<int>();
      if (address < lines * kLineBytes) {
        ShapeStyle style = row_style(row, static_cast<double>(byte) / row_bytes);
        style.tooltip = fmt::format("row {}, byte {} at {}", row, byte, address);
        panel.word(address, style, fmt::format("{}.{}", row, byte / kVectorBytes), 7.5);
      }
      byte += kWordBytes;
    }
    ++row;
  }
}

std::string access_remark(const json& access, const Instance& instance) {
  const int degree = access.at("degree").get<int>();
  return fmt::format("{}; {} wavefronts, {} are ideal; shown: step {} of {} ({} of {})",
                     degree == 1 ? "free of bank conflicts" : fmt::format("conflict degree {}", degree),
                     access.at("wavefronts").get<int>(), access.at("ideal").get<int>(), instance.index + 1,
                     access.at("addresses").size(), instance.wavefronts, instance.ideal);
}

std::string lanes_label(const std::vector<int>& lanes) {
  return fmt::format("{}{}", lanes.front(), lanes.size() > 1 ? "+" : "");
}

/// The first and last memory line that an instance touches.
std::pair<int, int> touched_lines(const Instance& instance) {
  if (instance.lanes.empty()) return {0, 0};
  return {instance.lanes.begin()->first / kLineBytes, instance.lanes.rbegin()->first / kLineBytes};
}

void draw_access(Svg& svg, double top, const json& access, const Instance& instance) {
  const int phase_lanes = access.at("lanes_per_phase").get<int>();
  panel_title(svg, top, access.at("name"), access_remark(access, instance));
  const auto [first, last] = touched_lines(instance);
  Panel panel(svg, top, first, last);
  std::vector<int> waiting;  // drawn last, so that adjacent words do not cover their outlines
  const auto draw = [&](int address, bool waits) {
    const std::vector<int>& lanes = instance.lanes.at(address);
    panel.word(address,
               {.fill = lane_fill(lanes.front(), phase_lanes),
                .stroke = waits ? "#cc0000" : "#ffffff",
                .stroke_width = waits ? 2.0 : 1.0,
                .kind = waits ? "touch waits" : "touch",
                .tooltip = fmt::format("byte {}, bank {}: lane {}", address, address / kWordBytes % kBanks,
                                       fmt::join(lanes, ", "))},
               lanes_label(lanes));
  };
  for (const auto& [address, lanes] : instance.lanes) {
    if (!instance.waiting.contains(address)) draw(address, false);
  }
  for (const int address : instance.waiting) draw(address, true);
}

}  // namespace

std::string tile_picture(const json& tile, const std::string& subject) {
  std::vector<Instance> instances;
  for (const json& access : tile.at("accesses")) instances.push_back(worst_instance(access));
  const int lines = std::min(kMostMemoryLines, (tile.at("bytes").get<int>() + kLineBytes - 1) / kLineBytes);
  double height = kHead + panel_height(lines);
  for (const Instance& instance : instances) {
    const auto [first, last] = touched_lines(instance);
    height += panel_height(last - first + 1);
  }
  const auto name = tile.at("name").get<std::string>();
  Svg svg(kLeft + kBanks * kCellWidth + kMargin, height, name);
  svg.text({kMargin, 30}, name, {.size = 17, .bold = true});
  svg.text({kMargin, 49}, subject, {.size = 11.5, .fill = "#555555"});
  svg.text({kMargin, 66},
           fmt::format("{}; {} bytes", tile.at("layout").get<std::string>(), tile.at("bytes").get<int>()),
           {.size = 11.5, .fill = "#555555"});
  svg.text({kMargin, 83},
           "Below: the words that one instruction touches, by lane (+: several lanes share the word; red: the word "
           "waits for its bank).",
           {.size = 11.5, .fill = "#555555"});
  double top = kHead;
  draw_layout(svg, top, tile, lines);
  top += panel_height(lines);
  for (std::size_t i = 0; i < instances.size(); ++i) {
    draw_access(svg, top, tile.at("accesses").at(i), instances[i]);
    const auto [first, last] = touched_lines(instances[i]);
    top += panel_height(last - first + 1);
  }
  return svg.finish();
}

}  // namespace cubit::tools
