#include "verify/recordings/run_dump_writer.h"

#include <algorithm>
#include <fmt/format.h>
#include <numeric>
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
constexpr int kWorldNumber = 0;

/// Returns the operation as ProcessGroupNCCL names it; "" if the flight recorder does not record it.
std::string_view recorded_name(Operation operation) {
  static const std::map<Operation, std::string_view> others = {
      {Operation::reduce_scatter, "_reduce_scatter_base"},
      {Operation::all_gather, "_all_gather_base"},
      {Operation::all_to_all_uneven, "all_to_all"},
      {Operation::barrier, "all_reduce_barrier"},
      {Operation::split, ""},
      {Operation::new_group, ""}};
  const auto found = others.find(operation);
  return found == others.end() ? name_of(operation) : found->second;
}

/// Returns the dtype as PyTorch's ScalarType names it.
std::string_view recorded_name(sim::DType dtype) {
  using enum sim::DType;
  static const std::map<sim::DType, std::string_view> names = {
      {f64, "Double"},        {f32, "Float"}, {bf16, "BFloat16"}, {f16, "Half"}, {field, "UInt64"},
      {i64, "Long"},          {i32, "Int"},   {i8, "Char"},       {u8, "Byte"},  {f8e4m3, "Float8_e4m3fn"},
      {f8e5m2, "Float8_e5m2"}};
  return names.at(dtype);
}

std::string profiling_name(const CallRecord& call, int place) {
  const std::string_view name = recorded_name(call.operation);
  if (call.operation == Operation::send) return fmt::format("nccl:send {}->{}", place, call.root_or_peer);
  if (call.operation == Operation::recv) return fmt::format("nccl:recv {}<-{}", place, call.root_or_peer);
  return fmt::format("nccl:{}", name);
}

/// Fills in the sizes and dtypes of the tensors. PyTorch gives a member of gather or scatter that has no
/// tensor on one side an undefined one there.
void add_tensors(const CallRecord& call, int place, FlightCall& dumped) {
  const std::int64_t n = call.group->size();
  const TensorSizes block = {{call.count}}, whole = {{n * call.count}}, undefined = {{0}};
  const bool is_root = call.root_or_peer == place;
  dumped.input_dtype = dumped.output_dtype = recorded_name(call.dtype);
  dumped.input_sizes = dumped.output_sizes = block;
  const auto is = [&](Operation operation) { return call.operation == operation; };
  const auto give_root = [&](TensorSizes& sizes, std::string_view& dtype) {
    sizes = is_root ? TensorSizes(static_cast<std::size_t>(n), {call.count}) : undefined;
    if (!is_root) dtype = "Undefined";
  };
  if (is(Operation::reduce_scatter) || is(Operation::all_to_all)) dumped.input_sizes = whole;
  if (is(Operation::all_gather) || is(Operation::all_to_all)) dumped.output_sizes = whole;
  if (is(Operation::gather)) give_root(dumped.output_sizes, dumped.output_dtype);
  if (is(Operation::scatter)) give_root(dumped.input_sizes, dumped.input_dtype);
  if (is(Operation::barrier)) {
    dumped.input_sizes = dumped.output_sizes = {{1}};
    dumped.input_dtype = dumped.output_dtype = "Float";
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
      : dump_(dump),
        collectives_(dump.groups.size()),
        messages_(dump.groups.size()),
        calls_(dump.groups.size()) {}

  void add(const CallRecord& call, const sim::CallTimes& times, const FlightPlace& at) {
    FlightCall dumped{
        .record_id = records_++, .group = at.group, .is_p2p = is_point_to_point(call.operation)};
    if (!dumped.is_p2p) ++collectives_[at.group];
    if (dumped.is_p2p && !continues_batch(call, at)) ++messages_[at.group];  // a batch has one number
    dumped.collective_seq_id = collectives_[at.group];
    dumped.p2p_seq_id = messages_[at.group];
    dumped.op_id = ++calls_[at.group];
    dumped.profiling_name = profiling_name(call, at.place);
    add_tensors(call, at.place, dumped);
    add_times(call, times, dumped);
    dumped.frame_name = call.site.name;
    dumped.frame_file = call.site.file;
    dumped.frame_line = call.site.line;
    add_status(dumped);
    dump_.calls.push_back(std::move(dumped));
  }

 private:
  /// Whether the message is of the batch of the call before it, which a planted fault may have left out.
  bool continues_batch(const CallRecord& call, const FlightPlace& at) const {
    if (!call.continues_batch || dump_.calls.empty()) return false;
    const FlightCall& before = dump_.calls.back();
    return before.is_p2p && before.group == at.group && before.frame_name == call.site.name;
  }

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
  std::vector<std::int64_t> collectives_, messages_, calls_;  // the numbers so far, by group
  std::map<std::tuple<std::size_t, bool, int>, Line> lines_;  // by group, direction and peer
};

}  // namespace

RunDumpWriter::RunDumpWriter(const sim::Layout& layout, const sim::RunReport& run,
                             const sim::RunTimeline& timeline, std::int64_t most_calls)
    : layout_(layout), run_(run), timeline_(timeline), most_calls_(most_calls) {
  SIM_CHECK(timeline.calls.size() == run.ranks.size());
  std::vector<int> ranks(static_cast<std::size_t>(layout.grid_size));
  std::iota(ranks.begin(), ranks.end(), layout.first_rank);
  std::set<std::pair<int, std::string>> made;  // in the order of new_group calls: index, kind
  for (const sim::RankReport& rank : run.ranks) {
    for (const CallRecord& call : rank.calls) {
      if (call.group->kind != kWorldKind && layout.find(call.group->kind) == nullptr)
        made.emplace(call.group->index, call.group->kind);
    }
  }
  ranks_texts_[kWorldNumber] = listed_ranks(ranks);
  int number = layout.call_count();
  for (const auto& [index, kind] : made) made_[{kind, index}] = ++number;
}

/// Returns the numbers of the new_group calls that made the groups of the layout to which a rank belongs,
/// with the places of their kinds. The call that makes the world comes before all others.
std::map<int, int> RunDumpWriter::layout_groups_of(int rank) const {
  std::map<int, int> kinds;
  for (int kind = 0; kind < std::ssize(layout_.kinds); ++kind) {
    const auto place = layout_.kinds[static_cast<std::size_t>(kind)].place_of(rank);
    if (place) kinds[layout_.calls_of(kind).call_of(place->group) + 1] = kind;
  }
  return kinds;
}

/// Lists the groups in which the rank has made a call, and the world.
RunDumpWriter::Places RunDumpWriter::add_groups(const sim::RankReport& rank, RankDump& dump) {
  std::map<int, const sim::ProcessGroup*> used;  // by the number of the name
  const std::map<int, int> of_layout = layout_groups_of(rank.rank);
  std::map<std::string_view, int> numbers;  // of the groups of the layout, by kind
  for (const auto& [number, kind] : of_layout)
    numbers[layout_.kinds[static_cast<std::size_t>(kind)].name()] = number;
  for (const CallRecord& call : rank.calls) {
    if (recorded_name(call.operation).empty() || call.group->kind == kWorldKind) continue;
    const auto known = numbers.find(call.group->kind);
    const int number =
        known != numbers.end() ? known->second : made_.at({call.group->kind, call.group->index});
    used.emplace(number, call.group);
  }
  dump.groups.push_back(
      {.number = 0, .name = "0", .description = "default_pg", .ranks = ranks_texts_[kWorldNumber]});
  Places places;
  int made = 0;
  for (const auto& [number, group] : used) {
    const auto own = of_layout.find(number);
    const bool is_made = own == of_layout.end();
    std::string& ranks = ranks_texts_[number];
    if (ranks.empty()) ranks = listed_ranks(group->members);
    places[group] = {dump.groups.size(), group->place_of(rank.rank)};
    dump.groups.push_back(
        {.number = 1 + static_cast<int>(std::distance(of_layout.begin(), own)) + (is_made ? made++ : 0),
         .name = fmt::format("{}", number),
         .description = is_made ? group->kind : sim::find_kind(group->kind)->description_of(group->kind),
         .ranks = ranks});
  }
  return places;
}

RankDump RunDumpWriter::dump_of(std::size_t index) {
  const sim::RankReport& rank = run_.ranks[index];
  RankDump dump{.rank = rank.rank, .groups = {}, .calls = {}};
  Places places = add_groups(rank, dump);
  CallCounter counter(dump);
  for (std::size_t record = 0; record < rank.calls.size(); ++record) {
    const CallRecord& call = rank.calls[record];
    const sim::CallTimes& times = timeline_.calls[index][record];
    if (!times.is_made || recorded_name(call.operation).empty()) continue;
    const auto [place, is_world] = places.try_emplace(call.group);
    if (is_world) place->second = {0, call.group->place_of(rank.rank)};
    counter.add(call, times, place->second);
  }
  const std::int64_t lost = std::max<std::int64_t>(0, std::ssize(dump.calls) - most_calls_);
  dump.calls.erase(dump.calls.begin(), dump.calls.begin() + lost);
  return dump;
}

}  // namespace verify
