#include "tests/house/picture.h"

#include <fmt/format.h>

namespace test {

namespace {

struct Colours {
  const char *ground, *ink, *soft, *arrow, *failure;
  const char *sim, *sim_rim, *gpu, *gpu_rim, *verify, *verify_rim, *reference, *reference_rim;
};

constexpr Colours kLight = {"#ffffff", "#1b1f24", "#57606a", "#8b96a3", "#b42318", "#e3eefc", "#3b7dd8",
                            "#fdeedd", "#c9711a", "#e4f4e2", "#3f8a35", "#f1e8fb", "#8a63c9"};
constexpr Colours kDark = {"#15181d", "#eef1f5", "#a5afbb", "#76818e", "#ff8a80", "#1c3049", "#6aa5f2",
                           "#42290f", "#e9a35c", "#1d3a20", "#84c878", "#33244a", "#b695ee"};

/// Returns the rules that colour a picture. They name the colours and use no variables, which some programs
/// that show SVG do not know.
std::string rules_of(const Colours& colours) {
  const auto box = [](const char* name, const char* fill, const char* rim) {
    return fmt::format("rect.{} {{ fill: {}; stroke: {}; }}\n", name, fill, rim);
  };
  return fmt::format(
             "rect.ground {{ fill: {}; }}\ntext {{ fill: {}; }}\ntext.soft {{ fill: {}; }}\n"
             "path {{ stroke: {}; }}\npath.tip {{ fill: {}; }}\n"
             "text.failure {{ fill: {}; }}\npath.failure {{ stroke: {}; }}\n",
             colours.ground, colours.ink, colours.soft, colours.arrow, colours.arrow, colours.failure,
             colours.failure) +
         box("sim", colours.sim, colours.sim_rim) + box("gpu", colours.gpu, colours.gpu_rim) +
         box("verify", colours.verify, colours.verify_rim) +
         box("reference", colours.reference, colours.reference_rim);
}

constexpr const char* kShapes = R"(
text { font: 12px system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif; }
text.title { font-size: 16px; font-weight: 600; }
text.name { font-weight: 600; }
text.soft { font-size: 10.5px; }
text.centred { text-anchor: middle; }
rect { stroke-width: 1.2; }
path { fill: none; stroke-width: 1; }
path.some { stroke-width: 2; }
path.many { stroke-width: 3.2; }
path.failure { stroke-dasharray: 5 4; }
path.tip { stroke: none; }
)";

/// The colours follow the reader's system. The ground is drawn, because the page around may be of the other
/// kind.
std::string style() {
  return kShapes + rules_of(kLight) + "@media (prefers-color-scheme: dark) {\n" + rules_of(kDark) + "}\n";
}

}  // namespace

std::string picture(double height, const std::string& title, const std::string& drawn) {
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" height=\"{1}\" "
      "role=\"img\">\n<title>{2}</title>\n<style>{3}</style>\n"
      "<defs><marker id=\"tip\" viewBox=\"0 0 8 8\" refX=\"7\" refY=\"4\" markerWidth=\"8\" "
      "markerHeight=\"8\" markerUnits=\"userSpaceOnUse\" orient=\"auto\"><path class=\"tip\" d=\"M0 0.5L8 "
      "4L0 7.5z\"/>"
      "</marker></defs>\n<rect class=\"ground\" width=\"{0}\" height=\"{1}\"/>\n{4}</svg>\n",
      kPictureWidth, height, title, style(), drawn);
}

std::string picture_text(double x, double y, const std::string& classes, const std::string& text) {
  std::string safe;
  for (const char c : text) safe += c == '&' ? "&amp;" : c == '<' ? "&lt;" : std::string(1, c);
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" class=\"{}\">{}</text>\n", x, y, classes, safe);
}

}  // namespace test
