// Proves that pictures can hold any text, and that a tile's picture counts conflicts as the hardware does.
// pictures_test.py tests whole pictures of real plans.
#include "tools/pictures/svg.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tools/pictures/plan_pictures.hpp"

namespace cubit::tools {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

int count(const std::string& text, const std::string& part) {
  int found = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

TEST(Svg, EscapesWhatXmlReserves) {
  EXPECT_EQ(xml_escaped("a<b> & \"c\""), "a&lt;b&gt; &amp; &quot;c&quot;");
  EXPECT_EQ(xml_escaped("two\nlines\x01"), "two\xef\xbf\xbdlines\xef\xbf\xbd");
  Svg svg(10, 10, "<title>");
  svg.text({0, 0}, "1 < 2");
  EXPECT_THAT(svg.finish(), HasSubstr("&lt;title&gt;"));
  EXPECT_THAT(svg.finish(), HasSubstr(">1 &lt; 2</text>"));
}

TEST(Svg, ColoursOfTheWheel) {
  EXPECT_EQ(hsl(0, 1, 0.5), "#ff0000");
  EXPECT_EQ(hsl(120, 1, 0.5), "#00ff00");
  EXPECT_EQ(hsl(240, 1, 0.25), "#000080");
  EXPECT_EQ(hsl(77, 0, 1), "#ffffff");
}

/// One instance of a load of `bytes` per lane by the first `lanes` lanes; lane l begins at l · `stride`.
json tile_with_load(int bytes, int phase_lanes, int stride, int lanes) {
  json addresses = json::array();
  for (int lane = 0; lane < 32; ++lane) addresses.push_back(lane < lanes ? json(lane * stride) : json());
  const json access = {{"name", "load"},
                       {"bytes_per_lane", bytes},
                       {"lanes_per_phase", phase_lanes},
                       {"degree", 2},
                       {"wavefronts", 2},
                       {"ideal", 1},
                       {"addresses", json::array({addresses})}};
  return {{"name", "tile"},   {"layout", "rows"},       {"bytes", 4096},
          {"row_bytes", 128}, {"words", json::array()}, {"accesses", json::array({access})}};
}

TEST(TilePicture, OutlinesTheWordsThatWait) {
  struct Case {
    json tile;
    int touched;
    int waiting;
  };
  const Case cases[] = {
      {tile_with_load(4, 32, 4, 32), 32, 0},     // adjacent words
      {tile_with_load(4, 32, 0, 32), 1, 0},      // all lanes read one word
      {tile_with_load(4, 32, 8, 32), 32, 16},    // every second bank, twice
      {tile_with_load(4, 32, 128, 32), 32, 31},  // one bank
      {tile_with_load(16, 8, 16, 32), 128, 0},   // four phases of eight lanes
      {tile_with_load(16, 8, 128, 8), 32, 28},   // eight rows in four banks
      {tile_with_load(4, 32, 128, 3), 3, 2},     // lanes that take no part touch no word
  };
  for (const Case& one : cases) {
    const std::string svg = tile_picture(one.tile, "test");
    EXPECT_EQ(count(svg, "class=\"touch"), one.touched);
    EXPECT_EQ(count(svg, "class=\"touch waits\""), one.waiting);
  }
}

TEST(PlanPictures, FileNamesArePlain) {
  json layouts = {{"fragments", json::array()}, {"tiles", json::array({tile_with_load(4, 32, 4, 32)})}};
  layouts["tiles"][0]["name"] = "warps' outputs/../x: and more";
  layouts["memory"] = {{"bytes", 0}, {"regions", json::array()}};
  const auto pictures = plan_pictures(layouts, "test");
  ASSERT_EQ(pictures.size(), 1u);
  EXPECT_EQ(pictures[0].file, "tile-warps-outputs-..-x.svg");
}

}  // namespace
}  // namespace cubit::tools
