#pragma once

/// One rank's dump of PyTorch's flight recorder, with the fields of version 2.10, in the two formats in which
/// it is written:
///
///   pickle   what PyTorch writes into files
///   json     what PyTorch's endpoint _dump_fr_trace_json answers: times that are absent are 0, numbers of
///            pg_status are texts, and entries are absent where there are none. PyTorch's own has no frames
///
/// Shapes  times are nanoseconds; sizes are lists of dimensions, one list for each tensor.
/// Exact   the same dump gives the same bytes, and both formats hold the same values. The fields that say
///         where and when a process ran (thread, library, timeout) are the same in every dump.
/// Source  PyTorch, torch/csrc/distributed/c10d/FlightRecorder.hpp and FlightRecorderDetail.hpp.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "verify/output/json.h"

namespace verify {

// Writes values as a pickle of protocol 2, with the opcodes and in the form of PyTorch's own pickler: a text
// is written once and then taken from the memo, and containers are not in the memo.
//
// Calls   begin_ and end_ come in pairs. Inside of a dict, keys and values take turns; a pair has two
//         values. finish() is called once, after one value.
// Exact   the same calls give the same bytes. Whole numbers have the shortest opcode of BININT1, BININT2,
//         BININT and LONG1 of eight bytes.
// Source  PyTorch, torch/csrc/jit/serialization/pickler.cpp; the opcodes are those of Python's pickletools.

class PickleWriter {
 public:
  PickleWriter();
  void begin_dict() { out_ += "}("; }
  void end_dict() { out_ += 'u'; }
  void begin_list() { out_ += "]("; }
  void end_list() { out_ += 'e'; }
  void end_pair() { out_ += '\x86'; }
  void text(std::string_view text);
  void number(std::int64_t number);
  void real(double number);
  void flag(bool value) { out_ += value ? '\x88' : '\x89'; }
  void none() { out_ += 'N'; }
  /// Writes a whole value. A list of the name "process_group" is a pair.
  void value(const Json& value);
  /// Returns all bytes.
  std::string finish();

 private:
  void little_endian(std::uint64_t number, int bytes);

  std::string out_;
  struct TextHash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
  };
  std::unordered_map<std::string, std::uint64_t, TextHash, std::equal_to<>> memo_;  // the number of each text
};

enum class DumpFormat { pickle, json };

/// A process group of the rank.
struct FlightGroup {
  int number = 0;           // counts the groups of the rank from 0, the world; PyTorch's pg_id
  std::string name;         // the number of the new_group call of the job that made it; "0" is the world
  std::string description;  // "TENSOR_MODEL_PARALLEL_GROUP"
  std::string ranks;        // "[0, 1]"
  std::int64_t last_enqueued = -1;
  std::int64_t last_started = -1;
  std::int64_t last_completed = -1;
};

using TensorSizes = std::vector<std::vector<std::int64_t>>;

/// One call. It is completed if it has a time of completion, started if it has only a time of start, and
/// scheduled if it has neither.
struct FlightCall {
  std::int64_t record_id = 0;
  std::size_t group = 0;  // index into the groups of the dump
  std::int64_t collective_seq_id = 0;
  std::int64_t p2p_seq_id = 0;  // the messages of a batch have one
  std::int64_t op_id = 0;       // the number of the call among all calls of its group, from 1
  std::string profiling_name;   // "nccl:all_reduce", "nccl:send 0->3"
  TensorSizes input_sizes;
  TensorSizes output_sizes;
  std::string_view input_dtype;  // of all inputs, as PyTorch names it: "BFloat16"
  std::string_view output_dtype;
  std::int64_t created_ns = 0;
  std::optional<std::int64_t> started_ns;
  std::optional<std::int64_t> completed_ns;
  bool is_p2p = false;
  std::string frame_name;  // the place of the call; "" for a dump without frames
  std::string frame_file;
  std::int64_t frame_line = 0;
};

struct RankDump {
  int rank = 0;
  std::vector<FlightGroup> groups;
  std::vector<FlightCall> calls;
};

/// Returns the content of the file.
std::string text_of(const RankDump& dump, DumpFormat format);

/// Returns "[0, 1, 2]", as pg_config writes the members of a group.
std::string listed_ranks(const std::vector<int>& ranks);

// The folder into which the dumps of a run are written, one file for each rank. Its path is checked before
// any work begins. The processes of a run may write into one folder, or into one of each machine.
//
// Errors  flight_recorder_folder: the path is empty, lies in a folder that does not exist or is not
//         writable, is not a folder, is not writable, or holds files, which might be dumps of another run.
//         Thrown by the constructor, and by write() if a file cannot be written any more.

class DumpFolderWriter {
 public:
  DumpFolderWriter(const std::string& path, DumpFormat format);
  /// Writes "nccl_trace_rank_3", or "nccl_trace_rank_3.json". The first one makes the folder, if it does not
  /// exist.
  void write(const RankDump& dump) const;

 private:
  [[noreturn]] void refuse_path(const std::string& problem) const;

  std::filesystem::path path_;
  DumpFormat format_;
};

}  // namespace verify
