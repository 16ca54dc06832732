#pragma once

/// A store of checkpoint files, found by name, in a folder or in memory.
///
/// Calls   Ranks of one world may call a store at once, each with its own names; only one rank at once may
///         call `replace` and `remove`.
/// Errors  checkpoint_store: the system refuses to read or to write; the message has the path and the
///         system's reason.
/// Exact   A file written by `replace` is either the old one or the new one, complete, whenever the program
///         ends. A file written by `write` may be cut short. Each file is created anew: anything that
///         had its name (a link, a pipe) is removed and never written to.

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
  /// Returns the bytes of a file, or nothing if there is no such file.
  virtual std::optional<std::string> read(const std::string& name) = 0;
  /// Returns the names of all files, sorted.
  virtual std::vector<std::string> names() = 0;
};

/// Returns a store in a folder, which is created if it does not exist. When `replace` returns, everything
/// written before has reached the disk.
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
