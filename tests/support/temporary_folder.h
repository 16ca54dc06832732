#pragma once

/// The path of a folder among the temporary files of the system, which is removed in the end.

#include <filesystem>
#include <string>
#include <unistd.h>

namespace test {

class TemporaryFolder {
 public:
  TemporaryFolder()
      : path_(std::filesystem::temp_directory_path() / ("shardproof-" + std::to_string(::getpid()))) {}
  ~TemporaryFolder() { std::filesystem::remove_all(path_); }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  std::string path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace test
