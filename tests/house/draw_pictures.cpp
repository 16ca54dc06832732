// Draws the committed pictures again: draw_pictures ROOT, where ROOT is a checkout. It is run by
// `ninja -C build pictures`.

#include <cstdio>
#include <fstream>

#include "tests/house/pictures.h"

int main(int words, char** word) {
  if (words != 2) {
    std::fputs("usage: draw_pictures ROOT\n", stderr);
    return 2;
  }
  const std::string root = word[1];
  for (const test::Picture& picture : test::all_pictures(test::sources_of(root))) {
    std::ofstream file(root + "/" + picture.path, std::ios::binary | std::ios::trunc);
    if (!(file << picture.svg).flush()) {
      std::fprintf(stderr, "draw_pictures: %s cannot be written\n", picture.path.c_str());
      return 1;
    }
  }
}
