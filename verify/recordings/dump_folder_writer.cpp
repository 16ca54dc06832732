#include "verify/recordings/dump_folder_writer.h"

#include <cstdlib>
#include <fmt/format.h>
#include <fstream>
#include <system_error>
#include <unistd.h>

#include "sim/base/error.h"

namespace verify {

namespace fs = std::filesystem;

/// Whether a folder can be made beside this path. Several processes may look at the same time, so each makes
/// one of its own, and removes it.
bool can_be_made(const fs::path& path) {
  std::string other = path.string();
  while (other.ends_with('/')) other.pop_back();
  other += ".XXXXXX";
  return mkdtemp(other.data()) != nullptr && fs::remove(other);
}

DumpFolderWriter::DumpFolderWriter(const std::string& path, DumpFormat format)
    : path_(path), format_(format) {
  std::error_code error;
  if (path_.empty()) refuse_path("is not the name of a folder");
  if (!fs::exists(path_, error)) {
    if (!can_be_made(path_)) refuse_path("cannot be made");
    return;
  }
  if (!fs::is_directory(path_, error)) refuse_path("exists and is not a folder");
  if (!fs::is_empty(path_, error) || error) refuse_path("holds files");
  if (access(path_.c_str(), W_OK | X_OK) != 0) refuse_path("is not writable");
}

void DumpFolderWriter::write(const RankDump& dump) const {
  std::error_code error;
  fs::create_directory(path_, error);
  std::ofstream file(path_ / file_name_of(dump.rank, format_), std::ios::binary);
  file << text_of(dump, format_) << std::flush;
  if (!file) refuse_path(fmt::format("could not take the dump of rank {}", dump.rank));
}

void DumpFolderWriter::refuse_path(const std::string& problem) const {
  sim::refuse({.code = "flight_recorder_folder",
               .option = "--flight-recorder",
               .numbers = fmt::format("'{}' {}", path_.string(), problem),
               .rule = "the dumps of a run are alone in a writable folder, which is empty or is made",
               .hint = "--flight-recorder dumps"});
}

}  // namespace verify
