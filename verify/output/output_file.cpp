#include "verify/output/output_file.h"

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <fcntl.h>
#include <fmt/format.h>
#include <string_view>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>
#include <utility>

#include "sim/base/error.h"

namespace verify {

namespace fs = std::filesystem;

namespace {

const char* ending_of(const std::string& option) {
  if (option == "report") return "html";
  if (option == "svg") return "svg";
  return option == "junit" ? "xml" : "json";
}

/// Returns the path to which a link points, even if nothing exists there yet.
fs::path without_links(const fs::path& path, std::error_code& error) {
  constexpr int kMostLinks = 40;
  fs::path at = fs::absolute(path, error);
  std::error_code nothing_there;
  for (int i = 0; i < kMostLinks && !error && fs::is_symlink(at, nothing_there); ++i) {
    const fs::path to = fs::read_symlink(at, error);
    at = to.is_absolute() ? to : at.parent_path() / to;
  }
  return fs::weakly_canonical(at, error);
}

/// Whether a path is the file to which this process writes through a descriptor.
bool is_open_as(const fs::path& path, int descriptor) {
  struct stat there = {}, open = {};
  return ::stat(path.c_str(), &there) == 0 && ::fstat(descriptor, &open) == 0 &&
         there.st_dev == open.st_dev && there.st_ino == open.st_ino;
}

/// A new file in the folder of the result. It is created with O_EXCL, so that no other process has it. The
/// destructor removes it, unless it was renamed.
class Temporary {
 public:
  /// `path` is that of the result, and `name` a part of the name until then.
  Temporary(const fs::path& path, const std::string& name) {
    constexpr int kMostNames = 100;  // files that processes with the same id may have left
    for (int i = 0; i < kMostNames; ++i) {
      path_ = path;
      path_.replace_filename(fmt::format(".{}.part-{}-{}", name, getpid(), i));
      descriptor_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
      if (descriptor_ >= 0 || errno != EEXIST) return;
    }
  }
  ~Temporary() {
    if (descriptor_ < 0) return;
    ::close(descriptor_);
    if (!is_renamed_) ::unlink(path_.c_str());
  }
  Temporary(const Temporary&) = delete;
  Temporary& operator=(const Temporary&) = delete;

  bool is_open() const { return descriptor_ >= 0; }
  bool write(std::string_view text) const {
    while (is_open() && !text.empty()) {
      const ssize_t written = ::write(descriptor_, text.data(), text.size());
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) return false;
      text.remove_prefix(static_cast<std::size_t>(written));
    }
    return is_open();
  }
  /// Gives the file the permissions of the one that it replaces, if there is one, and its name.
  bool replace(const fs::path& path) {
    struct stat before = {};
    if (::stat(path.c_str(), &before) == 0) static_cast<void>(::fchmod(descriptor_, before.st_mode & 07777U));
    is_renamed_ = ::rename(path_.c_str(), path.c_str()) == 0;
    return is_renamed_;
  }

 private:
  fs::path path_;
  int descriptor_ = -1;
  bool is_renamed_ = false;
};

}  // namespace

bool write_whole_file(const fs::path& path, const std::string& text) {
  std::error_code error;
  const fs::file_status there = fs::symlink_status(path, error);
  if (fs::exists(there) && !fs::is_regular_file(there) && !fs::is_symlink(there)) return false;
  Temporary file(path, path.filename().string());
  return file.write(text) && file.replace(path);
}

OutputFile::OutputFile(std::string option, const std::string& path, Scenario scenario)
    : option_(std::move(option)), given_(path) {
  std::error_code error;
  path_ = without_links(given_, error);
  if (path.empty() || error || !given_.has_filename()) refuse_path("is not the name of a file");
  if (scenario == Scenario::must_not_be && given_.extension() == ".ini")
    refuse_path("is the name of a scenario");
  if (!fs::is_directory(path_.parent_path(), error)) refuse_path("lies in a folder that does not exist");
  if (fs::exists(path_, error)) {
    if (!fs::is_regular_file(path_, error)) refuse_path("exists and is not a regular file");
    if (is_open_as(path_, STDOUT_FILENO)) refuse_path("is standard output, where the result goes");
    if (is_open_as(path_, STDERR_FILENO)) refuse_path("is standard error, where messages go");
    if (access(path_.c_str(), W_OK) != 0) refuse_path("exists and is not writable");
  }
  if (!Temporary(path_, option_).is_open()) refuse_path("lies in a folder that is not writable");
}

void OutputFile::require_differs_from(const OutputFile& other) const {
  if (path_ == other.path_) refuse_path(fmt::format("is also the file of --{}", other.option_));
}

void OutputFile::require_is_no_input(const std::string& input) const {
  std::error_code error;
  if (fs::equivalent(path_, input, error)) refuse_path("is an input of the command");
}

void OutputFile::write(const std::string& text) const {
  Temporary file(path_, option_);
  if (!file.write(text) || !file.replace(path_)) refuse_path("could not be written");
}

void OutputFile::refuse_path(const std::string& problem) const {
  std::string code = option_ + "_file";
  std::replace(code.begin(), code.end(), '-', '_');
  sim::refuse({.code = std::move(code),
               .option = "--" + option_,
               .numbers = fmt::format("'{}' {}", given_.string(), problem),
               .rule = "each output is a file of its own, in an existing folder that is writable",
               .hint = fmt::format("--{0} {0}.{1}", option_, ending_of(option_))});
}

}  // namespace verify
