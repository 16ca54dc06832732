#pragma once

/// A store of checkpoint files, found by name.
///
/// Calls   Ranks of one world may call a store at once, each with its own names; only one rank at once may
///         call `replace` and `remove`.
/// Exact   A file written by `replace` is either the old one or the new one, complete, whenever the program
///         ends. A file written by `write` may be cut short.

#include <map>
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

/// A store in memory.
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
