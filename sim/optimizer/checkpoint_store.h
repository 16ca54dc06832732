#pragma once

/// Where checkpoints are kept: files by name, in a folder or in memory.
///
/// Calls   by ranks of one world at once, each with names of its own; `replace` and `remove` by one rank
///         alone.
/// Errors  checkpoint_store: the system refuses to read or to write; with the path and its reason.
/// Exact   a file of `replace` is whole: the old one or the new one, whenever the program ends. One of
///         `write` may be cut short.

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sim {

class CheckpointStore {
 public:
  virtual ~CheckpointStore() = default;
  virtual void write(const std::string& name, std::string_view bytes) = 0;
  virtual void replace(const std::string& name, std::string_view bytes) = 0;
  virtual void remove(const std::string& name) = 0;
  /// None where there is no such file.
  virtual std::optional<std::string> read(const std::string& name) = 0;
  /// Of all files, sorted.
  virtual std::vector<std::string> names() = 0;
};

/// In a folder, which is made if it is not there. What was written has reached the disk when `replace`
/// returns.
std::unique_ptr<CheckpointStore> folder_store(const std::string& path);

class MemoryStore : public CheckpointStore {
 public:
  void write(const std::string& name, std::string_view bytes) override;
  void replace(const std::string& name, std::string_view bytes) override;
  void remove(const std::string& name) override;
  std::optional<std::string> read(const std::string& name) override;
  std::vector<std::string> names() override;

 private:
  std::mutex mutex_;
  std::map<std::string, std::string> files_;
};

}  // namespace sim
