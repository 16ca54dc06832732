#include "verify/recordings/dump_writer.h"

#include <bit>
#include <cstdlib>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <system_error>
#include <unistd.h>
#include <utility>

#include "verify/output/output_file.h"
#include "verify/output/refusal_table.h"

namespace verify {

namespace {

constexpr int kProtocol = 2;
constexpr std::uint64_t kMostShortMemo = 255;  // the largest number that BINPUT and BINGET take

constexpr std::int64_t kTimeoutMs = 600'000;  // NCCL's default in PyTorch
constexpr double kNanosecondsOfMs = 1e6;

Json dtypes_of(const TensorSizes& tensors, std::string_view dtype) {
  return std::vector<std::string>(tensors.size(), std::string(dtype));
}

/// The fields of a call, in the order in which PyTorch writes them. A time that is absent is 0 in JSON.
Json entry_of(const RankDump& dump, const FlightCall& call, DumpFormat format) {
  const FlightGroup& group = dump.groups[call.group];
  const auto time = [&](const std::optional<std::int64_t>& ns) {
    return ns || format == DumpFormat::json ? Json(ns.value_or(0)) : Json(nullptr);
  };
  Json entry = Json::object();
  if (!call.frame_name.empty())
    entry["frames"] = Json::array(
        {Json{{"name", call.frame_name}, {"filename", call.frame_file}, {"line", call.frame_line}}});
  entry["record_id"] = call.record_id;
  entry["pg_id"] = group.number;
  entry["process_group"] = Json::array({group.name, group.description});
  entry["thread_name"] = "rank";
  entry["thread_id"] = "0";
  entry["collective_seq_id"] = call.collective_seq_id;
  entry["p2p_seq_id"] = call.p2p_seq_id;
  entry["op_id"] = call.op_id;
  entry["profiling_name"] = call.profiling_name;
  entry["time_created_ns"] = call.created_ns;
  if (call.started_ns && call.completed_ns)
    entry["duration_ms"] = static_cast<double>(*call.completed_ns - *call.started_ns) / kNanosecondsOfMs;
  entry["input_sizes"] = call.input_sizes;
  entry["input_dtypes"] = dtypes_of(call.input_sizes, call.input_dtype);
  entry["output_sizes"] = call.output_sizes;
  entry["output_dtypes"] = dtypes_of(call.output_sizes, call.output_dtype);
  entry["state"] = call.completed_ns ? "completed" : call.started_ns ? "started" : "scheduled";
  entry["time_discovered_started_ns"] = time(call.started_ns);
  entry["time_discovered_completed_ns"] = time(call.completed_ns);
  entry["retired"] = call.completed_ns.has_value();
  entry["timeout_ms"] = kTimeoutMs;
  entry["is_p2p"] = call.is_p2p;
  return entry;
}

/// The document, as the format has it: in JSON numbers of "pg_status" are texts, and entries are absent where
/// there are none.
Json document_of(const RankDump& dump, DumpFormat format) {
  const bool is_json = format == DumpFormat::json;
  const auto number = [&](std::int64_t value) { return is_json ? Json(std::to_string(value)) : Json(value); };
  Json configs = Json::object(), statuses = Json::object(), entries = Json::array();
  for (const FlightGroup& group : dump.groups) {
    configs[group.name] = Json{{"name", group.name}, {"desc", group.description}, {"ranks", group.ranks}};
    statuses[std::to_string(group.number)] =
        Json{{"last_enqueued_collective", number(group.last_enqueued)},
             {"last_started_collective", number(group.last_started)},
             {"last_completed_collective", number(group.last_completed)}};
  }
  for (const FlightCall& call : dump.calls) entries.push_back(entry_of(dump, call, format));
  Json document = {{"version", "2.10"},
                   {"pg_config", std::move(configs)},
                   {"comm_lib_version", "shardproof"},
                   {"pg_status", std::move(statuses)}};
  if (!is_json || !dump.calls.empty()) document["entries"] = std::move(entries);
  return document;
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
  const auto put = [&](std::string_view opcode, int bytes) {
    out_ += opcode;
    little_endian(static_cast<std::uint64_t>(number), bytes);
  };
  if (std::in_range<std::uint8_t>(number)) return put("K", 1);
  if (std::in_range<std::uint16_t>(number)) return put("M", 2);
  if (std::in_range<std::int32_t>(number)) return put("J", 4);
  put("\x8a\x08", 8);
}

/// BINFLOAT is the only opcode whose number is big-endian.
void PickleWriter::real(double number) {
  out_ += 'G';
  const auto bits = std::bit_cast<std::uint64_t>(number);
  for (int shift = 56; shift >= 0; shift -= 8)
    out_ += static_cast<char>((bits >> static_cast<unsigned>(shift)) & 0xFFU);
}

void PickleWriter::value(const Json& value) {
  if (value.is_null()) return none();
  if (value.is_text()) return text(value.text());
  if (value.is_integer()) return number(value.integer());
  if (value.is_object()) {
    begin_dict();
    for (std::size_t i = 0; i < value.size(); ++i) {
      const Json& member = value.elements()[i];
      text(value.names()[i]);
      if (value.names()[i] != "process_group") {
        this->value(member);
        continue;
      }
      for (const Json& element : member.elements()) this->value(element);
      end_pair();
    }
    return end_dict();
  }
  if (value.is_array()) {
    begin_list();
    for (const Json& element : value.elements()) this->value(element);
    return end_list();
  }
  const std::string scalar = value.dump();
  if (scalar == "true" || scalar == "false") return flag(scalar == "true");
  real(std::stod(scalar));
}

std::string PickleWriter::finish() {
  out_ += '.';
  return std::move(out_);
}

std::string text_of(const RankDump& dump, DumpFormat format) {
  const Json document = document_of(dump, format);
  if (format == DumpFormat::json) return one_line(document);
  PickleWriter to;
  to.value(document);
  return to.finish();
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
  const char* const ending = format_ == DumpFormat::json ? ".json" : "";
  const fs::path file = path_ / fmt::format("nccl_trace_rank_{}{}", dump.rank, ending);
  if (!write_whole_file(file, text_of(dump, format_)))
    refuse_path(fmt::format("could not take the dump of rank {}", dump.rank));
}

void DumpFolderWriter::refuse_path(const std::string& problem) const {
  refuse_by("flight_recorder_folder", "--flight-recorder", path_.string(), problem);
}

}  // namespace verify
