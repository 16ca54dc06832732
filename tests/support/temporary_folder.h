#pragma once

/// The path of a folder among the temporary files of the system, which is removed in the end. A process that
/// has several gives them names.

#include <filesystem>
#include <string>
#include <unistd.h>

namespace test {

class TemporaryFolder {
 public:
  explicit TemporaryFolder(const std::string& name = "")
      : path_(std::filesystem::temp_directory_path() / ("shardproof-" + std::to_string(::getpid()) + name)) {}
  ~TemporaryFolder() { std::filesystem::remove_all(path_); }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  std::string path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace test
