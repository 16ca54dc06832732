#pragma once

/// Helpers of tests that write dumps: a folder that is removed with its object, and the content of a file.

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <unistd.h>

#include "gtest/gtest.h"

namespace test {

/// The path of a folder in the temporary folder of the tests. What is there is removed, before and after.
class Folder {
 public:
  explicit Folder(const std::string& name)
      : path_(std::filesystem::path(testing::TempDir()) / (name + "-" + std::to_string(getpid()))) {
    std::filesystem::remove_all(path_);
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

/// A folder to which a test adds files.
class FolderOfFiles : public Folder {
 public:
  explicit FolderOfFiles(const std::string& name) : Folder(name) {
    std::filesystem::create_directories(path());
  }
  void add(const std::string& name, const std::string& bytes) const {
    std::ofstream(path() / name, std::ios::binary) << bytes;
  }
};

inline std::string content_of(const std::filesystem::path& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

}  // namespace test
