#include "verify/recordings/run_dump_writer.h"

#include <algorithm>
#include <fmt/format.h>
#include <optional>
#include <set>
#include <string_view>
#include <tuple>
#include <vector>

#include "sim/base/check.h"
#include "sim/layout/kind_table.h"

namespace verify {

namespace {

using sim::CallRecord;
using sim::Operation;

constexpr std::int64_t kFirstNanosecond = 1;  // a time of 0 would stand for no time
constexpr const char* kWorldKind = "world";

/// Returns the operation as ProcessGroupNCCL names it; "" if the flight recorder does not record it.
std::string_view recorded_name(Operation operation) {
  switch (operation) {
    case Operation::reduce_scatter:
      return "_reduce_scatter_base";
    case Operation::all_gather:
      return "_all_gather_base";
    case Operation::all_to_all_uneven:
      return "all_to_all";
    case Operation::barrier:
      return "all_reduce_barrier";
    case Operation::split:
    case Operation::new_group:
      return "";
    default:
      return name_of(operation);
  }
}

/// Returns the dtype as PyTorch's ScalarType names it.
std::string_view recorded_name(sim::DType dtype) {
  switch (dtype) {
    case sim::DType::f64:
      return "Double";
    case sim::DType::f32:
      return "Float";
    case sim::DType::bf16:
      return "BFloat16";
    case sim::DType::field:
      return "UInt64";
    case sim::DType::i32:
      return "Int";
  }
  return "Undefined";
}

std::string profiling_name(const CallRecord& call, int place) {
  const std::string_view name = recorded_name(call.operation);
  if (call.operation == Operation::send) return fmt::format("nccl:send {}->{}", place, call.root_or_peer);
  if (call.operation == Operation::recv) return fmt::format("nccl:recv {}<-{}", place, call.root_or_peer);
  return fmt::format("nccl:{}", name);
}

/// Fills in the sizes and dtypes of the tensors. PyTorch gives a member of gather or scatter that has no tensor
/// on one side an undefined one there.
void add_tensors(const CallRecord& call, int place, FlightCall& dumped) {
  const std::int64_t n = call.group->size();
  const TensorSizes block = {{call.count}}, whole = {{n * call.count}}, undefined = {{0}};
  const bool is_root = call.root_or_peer == place;
  dumped.input_dtype = dumped.output_dtype = recorded_name(call.dtype);
  dumped.input_sizes = dumped.output_sizes = block;
  switch (call.operation) {
    case Operation::reduce_scatter:
      dumped.input_sizes = whole;
      break;
    case Operation::all_gather:
      dumped.output_sizes = whole;
      break;
    case Operation::all_to_all:
      dumped.input_sizes = dumped.output_sizes = whole;
      break;
    case Operation::all_to_all_uneven:
      dumped.output_sizes = {};
      break;
    case Operation::gather:
      dumped.output_sizes = is_root ? TensorSizes(static_cast<std::size_t>(n), {call.count}) : undefined;
      if (!is_root) dumped.output_dtype = "Undefined";
      break;
    case Operation::scatter:
      dumped.input_sizes = is_root ? TensorSizes(static_cast<std::size_t>(n), {call.count}) : undefined;
      if (!is_root) dumped.input_dtype = "Undefined";
      break;
    case Operation::barrier:
      dumped.input_sizes = dumped.output_sizes = {{1}};
      dumped.input_dtype = dumped.output_dtype = "Float";
      break;
    default:
      break;
  }
}

/// The calls of one group, or the messages from one member to another in it: they run one after the other.
struct Line {
  std::int64_t end = 0;   // the end of the latest call that completed
  bool is_stuck = false;  // a call never completes
};

/// Numbers and times the calls of one rank.
class CallCounter {
 public:
  explicit CallCounter(RankDump& dump)
      : dump_(dump), collectives_(dump.groups.size()), messages_(dump.groups.size()) {}

  void add(const CallRecord& call, const sim::CallTimes& times, std::size_t group, int place) {
    FlightCall dumped{.record_id = records_++, .group = group, .is_p2p = is_point_to_point(call.operation)};
    ++(dumped.is_p2p ? messages_ : collectives_)[group];
    dumped.collective_seq_id = collectives_[group];
    dumped.p2p_seq_id = messages_[group];
    dumped.profiling_name = profiling_name(call, place);
    add_tensors(call, place, dumped);
    add_times(call, times, dumped);
    dumped.frame_name = call.site.name;
    dumped.frame_file = call.site.file;
    dumped.frame_line = call.site.line;
    add_status(dumped);
    dump_.calls.push_back(std::move(dumped));
  }

 private:
  void add_times(const CallRecord& call, const sim::CallTimes& times, FlightCall& dumped) {
    Line& line =
        lines_[{dumped.group, call.operation == Operation::send, dumped.is_p2p ? call.root_or_peer : -1}];
    dumped.created_ns = kFirstNanosecond + times.made;
    if (!line.is_stuck) dumped.started_ns = kFirstNanosecond + std::max(times.made, line.end);
    if (times.ends) {
      dumped.completed_ns = kFirstNanosecond + times.end;
      line.end = times.end;
    } else {
      line.is_stuck = true;
    }
  }

  void add_status(const FlightCall& dumped) {
    FlightGroup& group = dump_.groups[dumped.group];
    const std::int64_t sequence = dumped.is_p2p ? dumped.p2p_seq_id : dumped.collective_seq_id;
    group.last_enqueued = sequence;
    if (dumped.started_ns) group.last_started = sequence;
    if (dumped.completed_ns) group.last_completed = sequence;
  }

  RankDump& dump_;
  std::int64_t records_ = 0;
  std::vector<std::int64_t> collectives_, messages_;          // the number of calls so far, by group
  std::map<std::tuple<std::size_t, bool, int>, Line> lines_;  // by group, direction and peer
};

}  // namespace

RunDumpWriter::RunDumpWriter(const sim::Layout& layout, const sim::RunReport& run,
                             const sim::RunTimeline& timeline, std::int64_t most_calls)
    : layout_(layout), run_(run), timeline_(timeline), most_calls_(most_calls) {
  CHECK(timeline.calls.size() == run.ranks.size());
  std::vector<int> ranks;
  std::set<std::pair<int, std::string>> made;  // in the order of new_group calls: index, kind
  for (const sim::RankReport& rank : run.ranks) {
    ranks.push_back(rank.rank);
    for (const CallRecord& call : rank.calls) {
      if (call.group->kind != kWorldKind && layout.find(call.group->kind) == nullptr)
        made.emplace(call.group->index, call.group->kind);
    }
  }
  world_ranks_ = listed_ranks(ranks);
  int number = layout.call_count();
  for (const auto& [index, kind] : made) made_[{kind, index}] = ++number;
}

/// Adds the groups of the layout to which the rank belongs.
void RunDumpWriter::add_layout_groups(Places& places, RankDump& dump) {
  std::map<int, std::pair<int, int>> by_number;  // kind and group, by the number of the name
  for (int kind = 0; kind < std::ssize(layout_.kinds); ++kind) {
    const auto place = layout_.kinds[static_cast<std::size_t>(kind)].place_of(dump.rank);
    if (place) by_number[layout_.calls_of(kind).call_of(place->group) + 1] = {kind, place->group};
  }
  for (const auto& [number, of_kind] : by_number) {
    const auto& [kind, group] = of_kind;
    const sim::GroupKind& members = layout_.kinds[static_cast<std::size_t>(kind)];
    std::string& ranks = ranks_texts_[number];
    if (ranks.empty()) ranks = listed_ranks(members.members(group));
    places[{members.name(), group}] = dump.groups.size();
    dump.groups.push_back({.name = fmt::format("{}", number),
                           .description = sim::find_kind(members.name())->description_of(members.name()),
                           .ranks = ranks});
  }
}

/// Adds the groups that the program made and this rank used.
void RunDumpWriter::add_made_groups(const sim::RankReport& rank, Places& places, RankDump& dump) const {
  std::map<int, const sim::ProcessGroup*> by_number;
  for (const CallRecord& call : rank.calls) {
    const auto made = made_.find({call.group->kind, call.group->index});
    if (made != made_.end()) by_number[made->second] = call.group;
  }
  for (const auto& [number, group] : by_number) {
    places[{group->kind, group->index}] = dump.groups.size();
    dump.groups.push_back(
        {.name = fmt::format("{}", number), .description = group->kind, .ranks = listed_ranks(group->members)});
  }
}

RankDump RunDumpWriter::dump_of(std::size_t index) {
  const sim::RankReport& rank = run_.ranks[index];
  RankDump dump{.rank = rank.rank, .groups = {}, .calls = {}};
  dump.groups.push_back({.name = "0", .description = "default_pg", .ranks = world_ranks_});
  Places places = {{{kWorldKind, 0}, 0}};
  add_layout_groups(places, dump);
  add_made_groups(rank, places, dump);
  CallCounter counter(dump);
  std::map<const sim::ProcessGroup*, std::pair<std::size_t, int>>
      known;  // place in the dump, place in the group
  for (std::size_t record = 0; record < rank.calls.size(); ++record) {
    const CallRecord& call = rank.calls[record];
    const sim::CallTimes& times = timeline_.calls[index][record];
    if (!times.is_made || recorded_name(call.operation).empty()) continue;
    const auto [group, is_new] = known.try_emplace(call.group);
    if (is_new) {
      group->second = {places.at({call.group->kind, call.group->index}), call.group->place_of(rank.rank)};
    }
    counter.add(call, times, group->second.first, group->second.second);
  }
  const std::int64_t lost = std::max<std::int64_t>(0, std::ssize(dump.calls) - most_calls_);
  dump.calls.erase(dump.calls.begin(), dump.calls.begin() + lost);
  return dump;
}

}  // namespace verify
