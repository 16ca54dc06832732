#pragma once

/// The pictures that are committed beside this file, and the program that draws them.

#include <string>
#include <vector>

#include "tests/house/source_files.h"

namespace test {

struct Picture {
  std::string path;  // from the root
  std::string svg;
};

/// Draws all pictures from the sources of a checkout.
std::vector<Picture> all_pictures(const std::vector<SourceFile>& sources);

}  // namespace test
