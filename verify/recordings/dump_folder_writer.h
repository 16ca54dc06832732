#pragma once

/// The folder into which the dumps of a run are written, one file for each rank. Its path is checked before
/// any work begins. The processes of a run may write into one folder, or into one of each machine.
///
/// Errors  flight_recorder_folder: the path is empty, lies in a folder that does not exist or is not
///         writable, is not a folder, is not writable, or holds files, which might be dumps of another run.
///         Thrown by the constructor, and by write() if a file cannot be written any more.

#include <filesystem>
#include <string>

#include "verify/recordings/dump_writer.h"

namespace verify {

class DumpFolderWriter {
 public:
  DumpFolderWriter(const std::string& path, DumpFormat format);
  /// Writes the file of a rank. The first one makes the folder, if it does not exist.
  void write(const RankDump& dump) const;

 private:
  [[noreturn]] void refuse_path(const std::string& problem) const;

  std::filesystem::path path_;
  DumpFormat format_;
};

}  // namespace verify
