// Proves that the committed pictures are what the tree is today: they are drawn again and compared, and the
// steps of the check are looked up in the sources.

#include "tests/house/pictures.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <gtest/gtest.h>
#include <regex>

#include "tests/house/check_picture.h"
#include "tests/house/layered_drawing.h"
#include "tests/house/picture.h"
#include "tests/house/room_picture.h"
#include "tests/house/rooms.h"

namespace {

using test::SourceFile;

std::size_t occurrences(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

TEST(HousePictures, AreWhatTheTreeIsToday) {
  for (const test::Picture& picture : test::all_pictures(test::sources_of(SHARDPROOF_SOURCE_DIR)))
    EXPECT_TRUE(test::text_of_file(std::string(SHARDPROOF_SOURCE_DIR) + "/" + picture.path) == picture.svg)
        << picture.path << " is not what the sources say. `ninja -C build pictures` draws it again.";
}

TEST(HousePictures, NoBoxLiesOutsideThePage) {
  const std::regex box("<rect class=\"[a-z]+\" x=\"(-?[0-9.]+)\" y=\"[0-9.]+\" width=\"([0-9.]+)\"");
  for (const test::Picture& picture : test::all_pictures(test::sources_of(SHARDPROOF_SOURCE_DIR))) {
    int boxes = 0;
    for (std::sregex_iterator at(picture.svg.begin(), picture.svg.end(), box); at != std::sregex_iterator();
         ++at) {
      const double left = std::stod((*at)[1]), right = left + std::stod((*at)[2]);
      EXPECT_TRUE(left >= 0 && right <= test::kPictureWidth) << picture.path << ": a box from " << left;
      ++boxes;
    }
    EXPECT_GE(boxes, 19) << picture.path;
  }
  for (const test::Room& room : test::rooms()) EXPECT_LE(room.holds.size(), 25U) << room.folder;
}

TEST(HousePictures, ARoomHasAnArrowToEachThatItIncludesAndNoneThatOthersImply) {
  const std::vector<SourceFile> chain = {{"sim/tensor/a.h", "#include \"sim/base/b.h\"\n"},
                                         {"sim/cpu/a.h", "#include \"sim/tensor/a.h\"\n"},
                                         {"tests/a.cpp", "#include \"sim/cpu/a.h\"\n"}};
  const std::string drawn = test::room_picture(chain);
  EXPECT_EQ(occurrences(drawn, "marker-end"), 2U);
  std::vector<SourceFile> shortcut = chain;
  shortcut[1].text += "#include \"sim/base/b.h\"\n";
  EXPECT_EQ(test::room_picture(shortcut), drawn);
  std::vector<SourceFile> other = chain;
  other[1].text += "#include \"sim/fibers/c.h\"\n";
  EXPECT_EQ(occurrences(test::room_picture(other), "marker-end"), 3U);
  std::vector<SourceFile> often = chain;
  for (int i = 0; i < 20; ++i) often[1].text += "#include \"sim/tensor/a.h\"\n";
  EXPECT_EQ(occurrences(test::room_picture(often), "class=\"many\""), 1U);
}

TEST(HousePictures, TheStepsOfACheckAreInTheSources) {
  const std::vector<SourceFile> sources = test::sources_of(SHARDPROOF_SOURCE_DIR);
  EXPECT_EQ(test::untrue_steps(sources), std::vector<std::string>{});
  EXPECT_GT(test::untrue_steps({}).size(), 30U);
  std::vector<SourceFile> changed = sources;
  const auto campaign = std::find_if(changed.begin(), changed.end(), [](const SourceFile& file) {
    return file.path == "verify/campaign/campaign_work.cpp";
  });
  ASSERT_NE(campaign, changed.end());
  const std::string call = "settings.next()";
  while (campaign->text.find(call) != std::string::npos)
    campaign->text.erase(campaign->text.find(call), call.size());
  EXPECT_EQ(test::untrue_steps(changed).size(), 1U);
}

TEST(HousePictures, PlacesHaveTheirDistances) {
  // Two nodes over two others, with crossed wishes, and an edge that passes a row.
  const test::LayeredDrawing drawing =
      test::layered_drawing({.rows = {2, 2, 1, 1, 0}, .edges = {{0, 3}, {1, 2}, {2, 4}, {3, 4}, {0, 4}}},
                            {.width = 500, .node_width = 100, .node_gap = 20, .bend_gap = 10});
  ASSERT_EQ(drawing.nodes.size(), 5U);
  for (const double x : drawing.nodes) {
    EXPECT_GE(x, 50);
    EXPECT_LE(x, 450);
  }
  EXPECT_GE(std::abs(drawing.nodes[2] - drawing.nodes[3]), 120);
  // Those that are joined stand on the same side: nothing crosses.
  EXPECT_EQ(drawing.nodes[0] < drawing.nodes[1], drawing.nodes[3] < drawing.nodes[2]);
  ASSERT_EQ(drawing.bends[4].size(), 1U);
  for (const int node : {2, 3})
    EXPECT_GE(std::abs(drawing.bends[4][0] - drawing.nodes[static_cast<std::size_t>(node)]), 60);
}

}  // namespace
