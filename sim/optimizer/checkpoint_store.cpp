#include "sim/optimizer/checkpoint_store.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

#include "sim/base/error.h"

namespace sim {

namespace {

[[noreturn]] void refuse_path(const std::string& path, const char* what, const std::string& reason) {
  refuse({.code = "checkpoint_store",
          .option = path,
          .numbers = fmt::format("{} failed: {}", what, reason),
          .rule = "all files of a checkpoint can be written and read",
          .hint = "a folder that can be written, with room for all of it"});
}

/// An open file, which the destructor closes.
class Descriptor {
 public:
  Descriptor(const std::string& path, int flags) : path_(path), number_(::open(path.c_str(), flags, 0644)) {
    if (number_ < 0) refuse_path(path_, "open", std::strerror(errno));
  }
  ~Descriptor() { ::close(number_); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  void write(std::string_view bytes) const {
    while (!bytes.empty()) {
      const ssize_t written = ::write(number_, bytes.data(), bytes.size());
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) refuse_path(path_, "write", std::strerror(errno));
      bytes.remove_prefix(static_cast<std::size_t>(written));
    }
  }
  /// Reads a regular file, and refuses all others, because reading one of them might never return.
  std::string read() const {
    struct stat status = {};
    if (::fstat(number_, &status) != 0) refuse_path(path_, "stat", std::strerror(errno));
    if (!S_ISREG(status.st_mode)) refuse_path(path_, "read", "it is not a regular file");
    std::string bytes;
    char block[1 << 16];
    for (;;) {
      const ssize_t got = ::read(number_, block, sizeof block);
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) refuse_path(path_, "read", std::strerror(errno));
      if (got == 0) return bytes;
      bytes.append(block, static_cast<std::size_t>(got));
    }
  }
  void sync() const {
    if (::fsync(number_) != 0) refuse_path(path_, "fsync", std::strerror(errno));
  }

 private:
  const std::string& path_;
  int number_;
};

class FolderStore : public CheckpointStore {
 public:
  explicit FolderStore(std::string path) : path_(std::move(path)) {
    std::error_code error;
    std::filesystem::create_directories(path_, error);
    if (error || !std::filesystem::is_directory(path_)) {
      refuse_path(path_, "making the folder", error ? error.message() : "a file has this name");
    }
  }

  /// Anything that has this name is removed first, so that nothing is written through a link.
  void write(const std::string& name, std::string_view bytes) override {
    const std::string path = path_of(name);
    static_cast<void>(::unlink(path.c_str()));  // if this fails, the next line refuses
    const Descriptor file(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC);
    file.write(bytes);
    file.sync();
  }

  void replace(const std::string& name, std::string_view bytes) override {
    const std::string path = path_of(name), next = path + ".new";
    write(name + ".new", bytes);
    sync_folder();  // files written before are on the disk before the new name is
    if (::rename(next.c_str(), path.c_str()) != 0) refuse_path(path, "rename", std::strerror(errno));
    sync_folder();
  }

  void remove(const std::string& name) override {
    std::error_code error;
    std::filesystem::remove(path_of(name), error);
    if (error) refuse_path(path_of(name), "remove", error.message());
  }

  std::optional<std::string> read(const std::string& name) override {
    const std::string path = path_of(name);
    struct stat status = {};
    if (::lstat(path.c_str(), &status) != 0 && errno == ENOENT) return std::nullopt;
    return Descriptor(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC).read();
  }

  std::vector<std::string> names() override {
    std::vector<std::string> names;
    std::error_code error;
    std::filesystem::directory_iterator entry(path_, error);
    for (; !error && entry != std::filesystem::directory_iterator(); entry.increment(error))
      names.push_back(entry->path().filename().string());
    if (error) refuse_path(path_, "list", error.message());
    std::sort(names.begin(), names.end());
    return names;
  }

 private:
  void sync_folder() const { Descriptor(path_, O_RDONLY | O_DIRECTORY | O_CLOEXEC).sync(); }
  std::string path_of(const std::string& name) const { return path_ + "/" + name; }
  std::string path_;
};

}  // namespace

std::unique_ptr<CheckpointStore> folder_store(const std::string& path) {
  return std::make_unique<FolderStore>(path);
}

void MemoryStore::write(const std::string& name, std::string_view bytes) {
  const std::lock_guard lock(mutex_);
  files_[name] = bytes;
}

void MemoryStore::replace(const std::string& name, std::string_view bytes) {
  MemoryStore::write(name, bytes);
}

void MemoryStore::remove(const std::string& name) {
  const std::lock_guard lock(mutex_);
  files_.erase(name);
}

std::optional<std::string> MemoryStore::read(const std::string& name) {
  const std::lock_guard lock(mutex_);
  const auto known = files_.find(name);
  return known == files_.end() ? std::nullopt : std::optional(known->second);
}

std::vector<std::string> MemoryStore::names() {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> names;
  for (const auto& [name, bytes] : files_) names.push_back(name);
  return names;
}

}  // namespace sim
