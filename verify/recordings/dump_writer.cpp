#include "verify/recordings/dump_writer.h"

#include <bit>
#include <cstddef>
#include <cstdlib>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <fstream>
#include <limits>
#include <map>
#include <system_error>
#include <unistd.h>
#include <utility>

#include "sim/base/error.h"
#include "verify/output/json.h"

namespace verify {

namespace {

constexpr int kProtocol = 2;
constexpr std::uint64_t kMostShortMemo = 255;  // the largest number that BINPUT and BINGET take

constexpr std::string_view kVersion = "2.10";
constexpr std::string_view kLibrary = "shardproof";
constexpr std::string_view kThread = "rank";
constexpr std::int64_t kTimeoutMs = 600'000;  // NCCL's default in PyTorch
constexpr double kNanosecondsOfMs = 1e6;

/// Writes values as JSON. It has the functions of PickleWriter.
class JsonWriter {
 public:
  void begin_dict() { open('{'); }
  void end_dict() { close('}'); }
  void begin_list() { open('['); }
  void end_list() { close(']'); }
  void begin_pair() { open('['); }
  void end_pair() { close(']'); }
  void text(std::string_view text) {
    const auto known = escaped_.find(text);
    add(known != escaped_.end() ? known->second
                                : escaped_.emplace(std::string(text), Json(text).dump()).first->second);
  }
  void number(std::int64_t number) { add(fmt::format("{}", number)); }
  void real(double number) { add(Json(number).dump()); }
  void flag(bool value) { add(value ? "true" : "false"); }
  std::string finish() { return out_ + "\n"; }

 private:
  /// Writes what stands before a value: nothing, a comma, or the colon behind a key.
  void separate() {
    if (levels_.empty()) return;
    Level& level = levels_.back();
    if (level.is_dict && level.values % 2 == 1) {
      out_ += ": ";
    } else if (level.values > 0) {
      out_ += ", ";
    }
    ++level.values;
  }
  void add(std::string_view value) {
    separate();
    out_ += value;
  }
  void open(char bracket) {
    separate();
    out_ += bracket;
    levels_.push_back({bracket == '{', 0});
  }
  void close(char bracket) {
    out_ += bracket;
    levels_.pop_back();
  }

  struct Level {
    bool is_dict;
    int values;  // the values written so far, with the keys
  };
  std::string out_;
  std::vector<Level> levels_;
  std::map<std::string, std::string, std::less<>> escaped_;
};

// ---- where the two formats differ

void write_time(PickleWriter& to, const char* name, const std::optional<std::int64_t>& time) {
  to.text(name);
  if (time) return to.number(*time);
  to.none();
}
void write_time(JsonWriter& to, const char* name, const std::optional<std::int64_t>& time) {
  to.text(name);
  to.number(time.value_or(0));
}

void write_status(PickleWriter& to, const char* name, std::int64_t number) {
  to.text(name);
  to.number(number);
}
void write_status(JsonWriter& to, const char* name, std::int64_t number) {
  to.text(name);
  to.text(fmt::format("{}", number));
}

bool writes_entries(const PickleWriter& /*to*/, const RankDump& /*dump*/) { return true; }
bool writes_entries(const JsonWriter& /*to*/, const RankDump& dump) { return !dump.calls.empty(); }

// ---- the fields, in the order in which PyTorch writes them

template <typename Writer>
void write_text(Writer& to, const char* name, std::string_view text) {
  to.text(name);
  to.text(text);
}

template <typename Writer>
void write_number(Writer& to, const char* name, std::int64_t number) {
  to.text(name);
  to.number(number);
}

/// Writes a dict that has a dict for each group of the rank.
template <typename Writer, typename KeyOf, typename WriteFields>
void write_groups(Writer& to, const RankDump& dump, const char* name, const KeyOf& key_of,
                  const WriteFields& write_fields) {
  to.text(name);
  to.begin_dict();
  for (const FlightGroup& group : dump.groups) {
    to.text(key_of(group));
    to.begin_dict();
    write_fields(group);
    to.end_dict();
  }
  to.end_dict();
}

template <typename Writer>
void write_config(Writer& to, const RankDump& dump) {
  const auto name_of = [](const FlightGroup& group) { return std::string_view(group.name); };
  write_groups(to, dump, "pg_config", name_of, [&](const FlightGroup& group) {
    write_text(to, "name", group.name);
    write_text(to, "desc", group.description);
    write_text(to, "ranks", group.ranks);
  });
}

template <typename Writer>
void write_all_status(Writer& to, const RankDump& dump) {
  const auto number_of = [](const FlightGroup& group) { return fmt::format("{}", group.number); };
  write_groups(to, dump, "pg_status", number_of, [&](const FlightGroup& group) {
    write_status(to, "last_enqueued_collective", group.last_enqueued);
    write_status(to, "last_started_collective", group.last_started);
    write_status(to, "last_completed_collective", group.last_completed);
  });
}

template <typename Writer>
void write_frames(Writer& to, const FlightCall& call) {
  if (call.frame_name.empty()) return;
  to.text("frames");
  to.begin_list();
  to.begin_dict();
  write_text(to, "name", call.frame_name);
  write_text(to, "filename", call.frame_file);
  write_number(to, "line", call.frame_line);
  to.end_dict();
  to.end_list();
}

template <typename Writer>
void write_tensors(Writer& to, const char* of_sizes, const TensorSizes& tensors, const char* of_dtypes,
                   std::string_view dtype) {
  to.text(of_sizes);
  to.begin_list();
  for (const std::vector<std::int64_t>& tensor : tensors) {
    to.begin_list();
    for (const std::int64_t size : tensor) to.number(size);
    to.end_list();
  }
  to.end_list();
  to.text(of_dtypes);
  to.begin_list();
  for (std::size_t i = 0; i < tensors.size(); ++i) to.text(dtype);
  to.end_list();
}

std::string_view state_of(const FlightCall& call) {
  if (call.completed_ns) return "completed";
  return call.started_ns ? "started" : "scheduled";
}

template <typename Writer>
void write_call(Writer& to, const RankDump& dump, const FlightCall& call) {
  const FlightGroup& group = dump.groups[call.group];
  to.begin_dict();
  write_frames(to, call);
  write_number(to, "record_id", call.record_id);
  write_number(to, "pg_id", group.number);
  to.text("process_group");
  to.begin_pair();
  to.text(group.name);
  to.text(group.description);
  to.end_pair();
  write_text(to, "thread_name", kThread);
  write_text(to, "thread_id", "0");
  write_number(to, "collective_seq_id", call.collective_seq_id);
  write_number(to, "p2p_seq_id", call.p2p_seq_id);
  write_number(to, "op_id", call.op_id);
  write_text(to, "profiling_name", call.profiling_name);
  write_number(to, "time_created_ns", call.created_ns);
  if (call.started_ns && call.completed_ns) {
    to.text("duration_ms");
    to.real(static_cast<double>(*call.completed_ns - *call.started_ns) / kNanosecondsOfMs);
  }
  write_tensors(to, "input_sizes", call.input_sizes, "input_dtypes", call.input_dtype);
  write_tensors(to, "output_sizes", call.output_sizes, "output_dtypes", call.output_dtype);
  write_text(to, "state", state_of(call));
  write_time(to, "time_discovered_started_ns", call.started_ns);
  write_time(to, "time_discovered_completed_ns", call.completed_ns);
  to.text("retired");
  to.flag(call.completed_ns.has_value());
  write_number(to, "timeout_ms", kTimeoutMs);
  to.text("is_p2p");
  to.flag(call.is_p2p);
  to.end_dict();
}

template <typename Writer>
std::string written(const RankDump& dump) {
  Writer to;
  to.begin_dict();
  write_text(to, "version", kVersion);
  write_config(to, dump);
  write_text(to, "comm_lib_version", kLibrary);
  write_all_status(to, dump);
  if (writes_entries(to, dump)) {
    to.text("entries");
    to.begin_list();
    for (const FlightCall& call : dump.calls) write_call(to, dump, call);
    to.end_list();
  }
  to.end_dict();
  return to.finish();
}

}  // namespace

PickleWriter::PickleWriter() : out_("\x80") { little_endian(kProtocol, 1); }

void PickleWriter::little_endian(std::uint64_t number, int bytes) {
  for (int i = 0; i < bytes; ++i, number >>= 8U) out_ += static_cast<char>(number & 0xFFU);
}

void PickleWriter::text(std::string_view text) {
  const auto known = memo_.find(text);
  const bool is_new = known == memo_.end();
  const std::uint64_t number = is_new ? memo_.size() : known->second;
  if (is_new) {
    out_ += 'X';
    little_endian(text.size(), 4);
    out_ += text;
    memo_.emplace(text, number);
  }
  const bool is_short = number <= kMostShortMemo;
  out_ += is_new ? (is_short ? 'q' : 'r') : (is_short ? 'h' : 'j');
  little_endian(number, is_short ? 1 : 4);
}

void PickleWriter::number(std::int64_t number) {
  const auto bits = static_cast<std::uint64_t>(number);
  if (number >= 0 && number <= 0xFF) {
    out_ += 'K';
    little_endian(bits, 1);
  } else if (number >= 0 && number <= 0xFFFF) {
    out_ += 'M';
    little_endian(bits, 2);
  } else if (std::in_range<std::int32_t>(number)) {
    out_ += 'J';
    little_endian(bits, 4);
  } else {
    out_ += "\x8a\x08";
    little_endian(bits, 8);
  }
}

/// BINFLOAT is the only opcode whose number is big-endian.
void PickleWriter::real(double number) {
  out_ += 'G';
  const auto bits = std::bit_cast<std::uint64_t>(number);
  for (int shift = 56; shift >= 0; shift -= 8)
    out_ += static_cast<char>((bits >> static_cast<unsigned>(shift)) & 0xFFU);
}

std::string PickleWriter::finish() {
  out_ += '.';
  return std::move(out_);
}

std::string text_of(const RankDump& dump, DumpFormat format) {
  return format == DumpFormat::pickle ? written<PickleWriter>(dump) : written<JsonWriter>(dump);
}

std::string file_name_of(int rank, DumpFormat format) {
  return fmt::format("nccl_trace_rank_{}{}", rank, format == DumpFormat::json ? ".json" : "");
}

std::string listed_ranks(const std::vector<int>& ranks) {
  return fmt::format("[{}]", fmt::join(ranks, ", "));
}

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
