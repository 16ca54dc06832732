// Draws how the figures of the benchmarks grow: draw_growth JSON SVG. README.md has the commands.

#include <cstdio>
#include <exception>
#include <fstream>
#include <iterator>
#include <string>

#include "tests/benchmarks/growth_picture.h"

int main(int words, char** word) {
  if (words != 3) {
    std::fputs("usage: draw_growth JSON SVG\n", stderr);
    return 2;
  }
  std::ifstream json(word[1], std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(json), {}};
  try {
    std::ofstream svg(word[2], std::ios::binary | std::ios::trunc);
    if (!(svg << benchmarks::growth_picture(benchmarks::growth_charts(text))).flush()) {
      std::fprintf(stderr, "draw_growth: %s cannot be written\n", word[2]);
      return 1;
    }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "draw_growth: %s: %s\n", word[1], error.what());
    return 1;
  }
  return 0;
}
