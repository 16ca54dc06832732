// Writes the dumps of a large job that hung, to measure `inspect` with. It is run by hand:
//
//   build/make_recordings FOLDER RANKS ENTRIES [STOPPED_RANK]
//   time build/shardproof inspect FOLDER
//
// The job has tp 8, pp 16 and the rest dp (fewer where RANKS is small). Every rank makes the same calls:
// those of a layer in its tp group and, after each sixteenth layer, one in its pp and one in its dp group.
// The stopped rank (5, if none is given) stops after three quarters of 4 * ENTRIES calls, in the middle of a
// layer, and every other rank goes on until it waits for a rank that stands still. A dump keeps the last
// ENTRIES calls.

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <fmt/format.h>
#include <iostream>
#include <numeric>
#include <string>
#include <vector>

#include "sim/base/error.h"
#include "sim/layout/kind_table.h"
#include "sim/layout/layout.h"
#include "verify/recordings/dump_writer.h"
#include "verify/recordings/run_dump_writer.h"

namespace {

using verify::FlightCall;
using verify::FlightGroup;
using verify::RankDump;

struct CallOfAll {
  const char* kind;
  const char* name;
  std::int64_t input, output;  // elements
};

constexpr CallOfAll kLayer[] = {{"tp", "nccl:_all_gather_base", 1 << 20, 1 << 23},
                                {"tp", "nccl:_reduce_scatter_base", 1 << 23, 1 << 20},
                                {"tp", "nccl:all_reduce", 64, 64}};
constexpr CallOfAll kEnds[] = {{"pp", "nccl:all_reduce", 1, 1}, {"dp", "nccl:all_reduce", 1 << 22, 1 << 22}};
constexpr std::int64_t kLayers = 16;
constexpr std::int64_t kPeriod = kLayers * 3 + 2;
const std::vector<std::string> kKinds = {"dp", "tp", "pp"};  // in the order of their creation

const CallOfAll& call_number(std::int64_t call) {
  const std::int64_t in_period = call % kPeriod;
  return in_period < kLayers * 3 ? kLayer[in_period % 3] : kEnds[in_period - kLayers * 3];
}

/// Returns the number of calls that each rank completes. A rank stands still at a call of which a member of
/// its group makes none, or stands still before it.
std::vector<std::int64_t> completed_calls(const sim::Layout& layout, int stopped, std::int64_t stops_at) {
  std::vector<std::int64_t> completed(static_cast<std::size_t>(layout.world_size), -1);  // -1: it goes on
  completed[static_cast<std::size_t>(stopped)] = stops_at;
  const auto goes_on = [](std::int64_t calls) { return calls < 0; };
  for (std::int64_t call = stops_at; std::any_of(completed.begin(), completed.end(), goes_on); ++call) {
    layout.find(call_number(call).kind)->for_each_group([&](int /*group*/, std::span<const int> members) {
      const bool all_come = std::all_of(members.begin(), members.end(), [&](int rank) {
        return goes_on(completed[static_cast<std::size_t>(rank)]);
      });
      if (all_come) return;
      for (const int rank : members) {
        std::int64_t& calls = completed[static_cast<std::size_t>(rank)];
        if (goes_on(calls)) calls = call;
      }
    });
  }
  return completed;
}

int kind_number(const sim::Layout& layout, const std::string& name) {
  const auto found = std::find_if(layout.kinds.begin(), layout.kinds.end(),
                                  [&](const sim::GroupKind& kind) { return kind.name() == name; });
  return static_cast<int>(found - layout.kinds.begin());
}

FlightCall flight_call(const CallOfAll& call, std::int64_t number, std::size_t group, std::int64_t sequence) {
  return {.record_id = number,
          .group = group,
          .collective_seq_id = sequence,
          .p2p_seq_id = 0,
          .op_id = sequence,
          .profiling_name = call.name,
          .input_sizes = {{call.input}},
          .output_sizes = {{call.output}},
          .input_dtype = "BFloat16",
          .output_dtype = "BFloat16",
          .created_ns = 1 + number * 1000,
          .started_ns = 2 + number * 1000,
          .completed_ns = {},
          .is_p2p = false,
          .frame_name = "",
          .frame_file = "",
          .frame_line = 0};
}

/// `issued` is one more than `completed` for a rank that waits.
RankDump dump_of(const sim::Layout& layout, int rank, std::int64_t completed, std::int64_t issued,
                 std::int64_t entries, const std::string& world) {
  RankDump dump{.rank = rank, .groups = {}, .calls = {}};
  dump.groups.push_back({.number = 0, .name = "0", .description = "default_pg", .ranks = world});
  for (const std::string& name : kKinds) {
    const int kind = kind_number(layout, name);
    const sim::GroupKind& groups = *layout.find(name);
    const int group = groups.place_of(rank)->group;
    dump.groups.push_back({.number = kind + 1,
                           .name = fmt::format("{}", layout.calls_of(kind).call_of(group) + 1),
                           .description = sim::find_kind(name)->description_of(name),
                           .ranks = verify::listed_ranks(groups.members(group))});
  }
  std::vector<std::int64_t> sequences(dump.groups.size());
  for (std::int64_t number = 0; number < issued; ++number) {
    const CallOfAll& call = call_number(number);
    const auto place = std::find(kKinds.begin(), kKinds.end(), call.kind) - kKinds.begin();
    const auto group = static_cast<std::size_t>(place) + 1;  // behind the world
    FlightGroup& status = dump.groups[group];
    status.last_enqueued = status.last_started = ++sequences[group];
    if (number < completed) status.last_completed = status.last_enqueued;
    if (number < issued - entries) continue;
    dump.calls.push_back(flight_call(call, number, group, sequences[group]));
    if (number < completed) dump.calls.back().completed_ns = 500 + number * 1000;
  }
  return dump;
}

void make(const std::string& folder, int ranks, std::int64_t entries, int stopped) {
  const int tp = std::gcd(8, ranks), pp = std::gcd(16, ranks / tp);
  const sim::Layout layout = sim::make_layout(
      {.world_size = ranks, .tensor_model_parallel_size = tp, .pipeline_model_parallel_size = pp},
      sim::RuleBook::megatron);
  const std::vector<std::int64_t> completed = completed_calls(layout, stopped, 3 * entries + 7);
  std::vector<int> all(static_cast<std::size_t>(ranks));
  std::iota(all.begin(), all.end(), 0);
  const std::string world = verify::listed_ranks(all);
  const verify::DumpFolderWriter files(folder, verify::DumpFormat::pickle);
  for (int rank = 0; rank < ranks; ++rank) {
    const std::int64_t calls = completed[static_cast<std::size_t>(rank)];
    files.write(dump_of(layout, rank, calls, calls + (rank == stopped ? 0 : 1), entries, world));
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) {
    std::cerr << "usage: make_recordings FOLDER RANKS ENTRIES [STOPPED_RANK]\n";
    return 2;
  }
  try {
    make(argv[1], std::stoi(argv[2]), std::stoll(argv[3]), argc > 4 ? std::stoi(argv[4]) : 5);
  } catch (const sim::Error& error) {
    std::cerr << error.refusal().option << ": " << error.refusal().numbers << "\n";
    return 2;
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return 2;
  }
  return 0;
}
