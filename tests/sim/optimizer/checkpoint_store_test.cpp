// Proves that a folder of checkpoint files writes to nothing else, that what the system refuses is refused, and
// that a file has its name only once it is on the disk, with all files that were written before.

#include "sim/optimizer/checkpoint_store.h"

#include <algorithm>
#include <cstdio>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <iterator>
#include <map>
#include <rapidcheck/gtest.h>
#include <set>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "sim/base/error.h"
#include "tests/support/temporary_folder.h"

namespace {

using namespace sim;

std::string text_of(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

class Disk;
Disk* watched_disk = nullptr;

/// What a folder would have if the machine stopped now: the files whose names and bytes were synced. It sees
/// the calls of the system while it exists.
class Disk {
 public:
  explicit Disk(std::filesystem::path folder) : folder_(std::move(folder)) { watched_disk = this; }
  ~Disk() { watched_disk = nullptr; }
  Disk(const Disk&) = delete;
  Disk& operator=(const Disk&) = delete;

  void sync(int descriptor) {
    const std::filesystem::path path =
        std::filesystem::read_symlink("/proc/self/fd/" + std::to_string(descriptor));
    if (std::filesystem::is_directory(path)) {
      names_ = names();
    } else {
      bytes_[number_of(path)] = text_of(path);
    }
  }
  bool has_all() const {
    if (names() != names_) return false;
    return std::all_of(names_.begin(), names_.end(), [&](const std::string& name) {
      const auto synced = bytes_.find(number_of(folder_ / name));
      return synced != bytes_.end() && synced->second == text_of(folder_ / name);
    });
  }
  /// Whether a file got its name before all was on the disk.
  bool was_renamed_early = false;

 private:
  std::set<std::string> names() const {
    std::set<std::string> all;
    for (const auto& entry : std::filesystem::directory_iterator(folder_))
      all.insert(entry.path().filename().string());
    return all;
  }
  static ino_t number_of(const std::filesystem::path& path) {
    struct stat status = {};
    static_cast<void>(::stat(path.c_str(), &status));
    return status.st_ino;
  }

  std::filesystem::path folder_;
  std::set<std::string> names_;
  std::map<ino_t, std::string> bytes_;
};

}  // namespace

// The store calls these in place of those of the system's library.
extern "C" int fsync(int descriptor) {
  if (watched_disk != nullptr) watched_disk->sync(descriptor);
  return static_cast<int>(::syscall(SYS_fsync, descriptor));
}
extern "C" int rename(const char* from, const char* to) noexcept {
  if (watched_disk != nullptr && !watched_disk->has_all()) watched_disk->was_renamed_early = true;
  return ::renameat(AT_FDCWD, from, AT_FDCWD, to);
}

namespace {

RC_GTEST_PROP(FolderStore, AFileHasItsNameOnceAllIsOnTheDisk, ()) {
  const test::TemporaryFolder folder;
  const auto store = folder_store(folder.path());
  Disk disk(folder.path());
  const int files = *rc::gen::inRange(1, 9);
  for (int file = 0; file < files; ++file) {
    const std::string name(1, *rc::gen::inRange('a', 'e'));
    const auto bytes = *rc::gen::string<std::string>();
    if (*rc::gen::arbitrary<bool>()) {
      store->write(name, bytes);
      continue;
    }
    store->replace(name, bytes);
    RC_ASSERT(disk.has_all());
  }
  RC_ASSERT(!disk.was_renamed_early);
}

TEST(FolderStore, WritesThroughNoLink) {
  const test::TemporaryFolder folder;
  const auto store = folder_store(folder.path());
  store->write("other", "keep");
  for (const char* name : {"a", "b.new"})
    std::filesystem::create_symlink("other", folder.path() + "/" + name);
  store->write("a", "text");
  store->replace("b", "text");
  EXPECT_EQ(store->read("other"), "keep");
  EXPECT_EQ(store->read("a"), "text");
  EXPECT_EQ(store->read("b"), "text");
  EXPECT_FALSE(std::filesystem::is_symlink(folder.path() + "/a"));
  ASSERT_EQ(::mkfifo((folder.path() + "/pipe").c_str(), 0600), 0);
  store->write("pipe", "text");  // opened as a pipe, this would wait for a reader
  EXPECT_EQ(store->read("pipe"), "text");
}

TEST(FolderStore, RefusesWhatTheSystemRefuses) {
  const test::TemporaryFolder folder;
  const auto store = folder_store(folder.path());
  store->write("a", "text");
  const auto code = [](const auto& body) -> std::string {
    try {
      body();
    } catch (const Error& error) {
      return error.refusal().code;
    }
    return "";
  };
  EXPECT_EQ(code([&] { folder_store(folder.path() + "/a"); }), "checkpoint_store");
  EXPECT_EQ(code([&] { folder_store(folder.path() + "/a/b"); }), "checkpoint_store");
  EXPECT_EQ(code([&] { store->write("no such folder/b", "text"); }), "checkpoint_store");
  EXPECT_EQ(code([&] { store->replace("no such folder/b", "text"); }), "checkpoint_store");
  EXPECT_EQ(code([&] { folder_store("/dev/full")->write("a", "text"); }), "checkpoint_store");
  std::filesystem::create_symlink("loop", folder.path() + "/loop");
  EXPECT_EQ(code([&] { store->read("loop"); }), "checkpoint_store");
  ASSERT_EQ(::mkfifo((folder.path() + "/fifo").c_str(), 0600), 0);
  EXPECT_EQ(code([&] { store->read("fifo"); }), "checkpoint_store");
  std::filesystem::create_directory(folder.path() + "/d");
  EXPECT_EQ(code([&] { store->read("d"); }), "checkpoint_store");
  std::filesystem::remove_all(folder.path());
  EXPECT_EQ(code([&] { store->names(); }), "checkpoint_store");
}

}  // namespace
