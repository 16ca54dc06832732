#pragma once

/// Reads what flight recorders wrote: one dump of one rank, or the files and folders of a whole job.
///
/// A pickle begins with the byte 0x80, JSON with '{'. Neither is executed (pickle_reader.h). Every version is
/// read by the names of its fields: one that is missing is unknown, and one that is not known is left out.
///
/// The rank of a dump is the number after "rank" in its file's name (but not after local_rank, node_rank or
/// group_rank), or else the last number of the name, or what `rank_from` finds in its path.
///
/// A file that is empty, or ends before its first field, is a blank dump: its process ended while it wrote.
/// In a folder it is one if its name differs from that of a dump in its numbers alone, and so is such a file
/// whose bytes are damaged; other files that would be refused are left out. Zeros at the end of a file, as a
/// file system leaves them after a write that was cut, are not read.
///
/// Exact   The result depends neither on the number of threads nor on the order of the paths. A rank with a
///         pickle and a JSON file of the same calls is read once.
/// Errors  dump_missing: no such file or folder, or none that can be read; dump_size: a file of more than
///         kMostRecordingBytes; dump_form: a file that is given by name and is no dump; dump_empty: no dump;
///         unknown_rank: no rank in the name of a file, or not one to 1,048,575; dump_twice: two dumps of one
///         rank with different calls or groups; bad_expression: no regular expression; and those of
///         pickle_reader.h and json_values.h. All problems of the files are reported together.

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "verify/recordings/recorded_fields.h"
#include "verify/recordings/recording.h"
#include "verify/recordings/value_tree.h"

namespace verify {

inline constexpr std::size_t kMostRecordingBytes = std::size_t{256} << 20U;

struct RecordingSource {
  std::vector<std::string> paths;  // files and folders
  std::string rank_from;           // a regular expression; "": the number of the file's name
  int threads = 1;
};

/// A dump that holds nothing, or nothing that can be read.
struct BlankDump {
  int rank = -1;
  std::string path;
  std::size_t bytes = 0;
  std::string problem;  // "no opcode (0xff) at offset 6"; "": it ends before its first field
};

/// Returns how it ends, without a subject: "is empty", "ends after 7 bytes, before its first field", "is
/// damaged (no opcode (0xff) at offset 6)".
std::string words_of(const BlankDump& blank);

struct Recordings {
  std::vector<Recording> ranks;    // ascending by rank, each rank once
  std::vector<BlankDump> blank;    // ascending by rank, of ranks that have no other dump
  std::vector<std::string> notes;  // on files that were left out, or read in part
};

/// Is called on the calling thread, with the number of files that were read, the number of all, and a path.
using ReadingProgress = std::function<void(std::size_t done, std::size_t total, const std::string& path)>;

Recordings read_recordings(const RecordingSource& source, const ReadingProgress& progress = {});

/// Returns the recording in the bytes of a file; nothing where they are no dump by their form. `file` is
/// named in refusals, and `tree` is used for the values.
std::optional<Recording> recording_of(std::string_view bytes, const std::string& file, SharedRanks& lists,
                                      ValueTree& tree);

}  // namespace verify
