#pragma once

/// The files of the checkout, as the rules of the house read them.

#include <string>
#include <vector>

namespace test {

struct SourceFile {
  std::string path;  // relative to the root: "sim/layout/layout.h"
  std::string text;
};

/// Returns the text of a file, or "" if it cannot be read.
std::string text_of_file(const std::string& path);

/// Returns the lines of a text that have one of these signs.
std::vector<std::string> lines_with(const std::string& text, const std::vector<std::string>& signs);

/// Returns the files in these folders of a checkout, and below them, whose names end in one of `endings`
/// (without any: all files), ordered by path. A folder that does not exist has none.
std::vector<SourceFile> files_under(const std::string& root, const std::vector<std::string>& folders,
                                    const std::vector<std::string>& endings);

/// Returns all C++ and CUDA sources and headers of a checkout.
std::vector<SourceFile> sources_of(const std::string& root);

}  // namespace test
