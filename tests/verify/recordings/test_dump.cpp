#include "tests/verify/recordings/test_dump.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <map>
#include <nlohmann/json.hpp>

namespace test {

namespace {

using Json = nlohmann::ordered_json;

bool is_message(const DumpedTestCall& call) { return call.operation.find(' ') != std::string::npos; }

Json entry_of(const TestDump& dump, std::size_t index) {
  const DumpedTestCall& call = dump.calls[index];
  const DumpedTestGroup& group = dump.groups[call.group];
  const auto id = call.record_id < 0 ? static_cast<std::int64_t>(index) : call.record_id;
  const Json sizes = Json::array({Json::array({call.elements})});
  const Json out_sizes =
      call.output_elements < 0 ? sizes : Json::array({Json::array({call.output_elements})});
  const bool is_completed = call.state == "completed";
  Json entry = {{"record_id", id},
                {"pg_id", call.group},
                {"process_group", {group.name, group.description}},
                {"collective_seq_id", call.sequence},
                {"p2p_seq_id", call.p2p_sequence},
                {"profiling_name", call.operation},
                {"time_created_ns", 1'000'000'000'000 + id + call.late_ns},
                {"input_sizes", sizes},
                {"input_dtypes", {call.dtype}},
                {"output_sizes", out_sizes},
                {"output_dtypes", {call.dtype}},
                {"state", call.state},
                {"time_discovered_started_ns", nullptr},
                {"time_discovered_completed_ns", is_completed ? Json(2'000'000'000'000 + id) : Json(nullptr)},
                {"retired", call.is_retired},
                {"timeout_ms", 600000},
                {"is_p2p", is_message(call)}};
  if (!dump.name_of_frame.empty())
    entry["frames"] = {{{"name", dump.name_of_frame}, {"filename", "train.py"}, {"line", 7}}};
  return entry;
}

Json status_of(const TestDump& dump, std::size_t group) {
  std::int64_t enqueued = -1, completed = -1;  // as PyTorch has them before the first call
  for (const DumpedTestCall& call : dump.calls) {
    if (call.group != group) continue;
    enqueued = is_message(call) ? call.p2p_sequence : call.sequence;
    if (call.state == "completed") completed = enqueued;
  }
  return {{"last_enqueued_collective", enqueued},
          {"last_started_collective", -1},
          {"last_completed_collective", completed}};
}

Json document_of(const TestDump& dump) {
  Json groups = Json::object(), statuses = Json::object(), entries = Json::array();
  for (std::size_t i = 0; i < dump.groups.size(); ++i) {
    const DumpedTestGroup& group = dump.groups[i];
    groups[group.name] = {{"name", group.name},
                          {"desc", group.description},
                          {"ranks", fmt::format("[{}]", fmt::join(group.ranks, ", "))}};
    statuses[std::to_string(i)] = status_of(dump, i);
  }
  for (std::size_t i = 0; i < dump.calls.size(); ++i) {
    if (!dump.is_active_only || dump.calls[i].state != "completed") entries.push_back(entry_of(dump, i));
  }
  Json document = {{"version", dump.version}, {"pg_config", groups}};
  if (dump.has_status) document["pg_status"] = statuses;
  document["entries"] = entries;
  return document;
}

/// Writes values as c10's pickler does: every text is kept in the memo.
class Pickler {
 public:
  std::string pickled(const Json& value) {
    out_ = "\x80\x02";
    write(value);
    return out_ + ".";
  }

 private:
  void number(std::uint64_t value, int bytes) {
    for (int i = 0; i < bytes; ++i) out_ += static_cast<char>(value >> static_cast<unsigned>(8 * i) & 0xffU);
  }

  void text(const std::string& value) {
    const auto [known, is_new] = memo_.try_emplace(value, memo_.size());
    const bool is_short = known->second < 256;
    if (is_new) {
      out_ += 'X';
      number(value.size(), 4);
      out_ += value;
      out_ += is_short ? 'q' : 'r';
    } else {
      out_ += is_short ? 'h' : 'j';
    }
    number(known->second, is_short ? 1 : 4);
  }

  void integer(std::int64_t value) {
    if (value >= 0 && value < 256) {
      out_ += 'K';
      number(static_cast<std::uint64_t>(value), 1);
    } else if (value >= INT32_MIN && value <= INT32_MAX) {
      out_ += 'J';
      number(static_cast<std::uint64_t>(value), 4);
    } else {
      out_ += "\x8a\x08";
      number(static_cast<std::uint64_t>(value), 8);
    }
  }

  void write(const Json& value) {
    if (value.is_string()) {
      text(value.get<std::string>());
    } else if (value.is_boolean()) {
      out_ += value.get<bool>() ? '\x88' : '\x89';
    } else if (value.is_number()) {
      integer(value.get<std::int64_t>());
    } else if (value.is_null()) {
      out_ += 'N';
    } else if (value.is_object()) {
      out_ += "}(";
      for (const auto& [key, member] : value.items()) {
        text(key);
        key == "process_group" ? pair(member) : write(member);
      }
      out_ += 'u';
    } else {
      out_ += "](";
      for (const Json& element : value) write(element);
      out_ += 'e';
    }
  }

  void pair(const Json& value) {
    write(value[0]);
    write(value[1]);
    out_ += '\x86';
  }

  std::string out_;
  std::map<std::string, std::size_t> memo_;
};

}  // namespace

std::string json_of(const TestDump& dump) { return document_of(dump).dump(); }

std::string pickle_of(const TestDump& dump) { return Pickler().pickled(document_of(dump)); }

}  // namespace test
