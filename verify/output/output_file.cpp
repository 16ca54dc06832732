#include "verify/output/output_file.h"

#include <fmt/format.h>
#include <fstream>
#include <system_error>
#include <unistd.h>

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

}  // namespace

OutputFile::OutputFile(std::string option, const std::string& path)
    : option_(std::move(option)), given_(path) {
  std::error_code error;
  path_ = without_links(given_, error);
  if (path.empty() || error || !given_.has_filename()) refuse_path("names no file");
  if (given_.extension() == ".ini") refuse_path("is the name of a scenario");
  if (!fs::is_directory(path_.parent_path(), error)) refuse_path("lies in no folder that is there");
  if (fs::exists(path_, error)) {
    if (!fs::is_regular_file(path_, error)) refuse_path("is there and is no plain file");
    if (access(path_.c_str(), W_OK) != 0) refuse_path("is there and may not be written");
  }
  const bool can_be_made = std::ofstream(temporary(), std::ios::binary).is_open();
  fs::remove(temporary(), error);
  if (!can_be_made) refuse_path("lies in a folder that may not be written");
}

void OutputFile::require_differs_from(const OutputFile& other) const {
  if (path_ == other.path_) refuse_path(fmt::format("is also the file of --{}", other.option_));
}

void OutputFile::require_is_no_input(const std::string& input) const {
  std::error_code error;
  if (fs::equivalent(path_, input, error)) refuse_path("is what the command reads");
}

void OutputFile::write(const std::string& text) const {
  std::error_code error;
  std::ofstream file(temporary(), std::ios::binary);
  const bool is_whole = file && (file << text) && file.flush();
  file.close();
  const fs::file_status before = fs::status(path_, error);
  if (fs::exists(before)) fs::permissions(temporary(), before.permissions(), error);
  error.clear();
  if (is_whole && file) fs::rename(temporary(), path_, error);
  if (is_whole && file && !error) return;
  fs::remove(temporary(), error);
  refuse_path("could not be written");
}

/// Returns a name that is different in each process, so that two runs do not write into one file.
fs::path OutputFile::temporary() const {
  fs::path name = path_;
  name.replace_filename(fmt::format(".{}.part-{}", option_, getpid()));
  return name;
}

void OutputFile::refuse_path(const std::string& problem) const {
  sim::refuse({.code = option_ + "_file",
               .option = "--" + option_,
               .numbers = fmt::format("'{}' {}", given_.string(), problem),
               .rule = "a file of its own, in a folder that is there and may be written",
               .hint = fmt::format("--{0} {0}.{1}", option_, ending_of(option_))});
}

}  // namespace verify
