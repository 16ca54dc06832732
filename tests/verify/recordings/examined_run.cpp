#include "tests/verify/recordings/examined_run.h"

#include <algorithm>
#include <cstdint>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <iterator>
#include <map>
#include <optional>
#include <tuple>

#include "sim/world/run_timeline.h"
#include "verify/recordings/run_dump_writer.h"

namespace test {

RankSet culprits_of(const sim::RunReport& run) {
  if (run.findings.empty()) return {};
  const sim::Finding& first = run.findings.front();
  RankSet all, ended;
  std::map<std::tuple<sim::Operation, std::int64_t, sim::DType, sim::ReduceOp, int>, RankSet> parties;
  for (const sim::CallFacts& call : first.calls) {
    all.insert(call.rank);
    const bool waits = call.state == "waits in" || call.state == "arrived at";
    if (!waits) ended.insert(call.rank);
    parties[{call.operation, call.count, call.dtype, call.reduce_op, call.root_or_peer}].insert(call.rank);
  }
  if (!ended.empty()) return ended;
  if (first.code == "split_size_mismatch" || first.code == "group_order_mismatch")
    return {first.calls.at(0).rank, first.calls.at(1).rank};
  if (first.code == "deadlock" || parties.size() != 2) return all;
  const RankSet& one = parties.begin()->second;
  const RankSet& other = std::next(parties.begin())->second;
  return one.size() == other.size() ? all : (one.size() < other.size() ? one : other);
}

RankSet suspects_of(const verify::Inspection& inspection) {
  RankSet ranks;
  for (const verify::Suspect& suspect : inspection.suspects) ranks.insert(suspect.rank);
  return ranks;
}

std::vector<verify::RankDump> dumps_of_run(const sim::Layout& layout, const sim::RunReport& run) {
  const sim::RunTimeline timeline = sim::run_timeline(run);
  verify::RunDumpWriter writer(layout, run, timeline);
  std::vector<verify::RankDump> dumps;
  for (std::size_t rank = 0; rank < writer.size(); ++rank) dumps.push_back(writer.dump_of(rank));
  return dumps;
}

verify::Recordings read_dumps(const std::vector<verify::RankDump>& dumps, int cut_rank,
                              std::size_t cut_size) {
  verify::Recordings recordings;
  verify::SharedRanks lists;
  verify::ValueTree tree;
  for (const verify::RankDump& dump : dumps) {
    std::string bytes = verify::text_of(dump, verify::DumpFormat::pickle);
    if (dump.rank == cut_rank) bytes.resize(std::min(cut_size, bytes.size()));
    std::optional<verify::Recording> recording = verify::recording_of(bytes, "dump", lists, tree);
    if (recording) {
      recordings.ranks.push_back(*std::move(recording));
      recordings.ranks.back().rank = dump.rank;
    } else {
      recordings.blank.push_back({.rank = dump.rank, .path = "dump", .bytes = bytes.size()});
    }
  }
  return recordings;
}

std::string text_of(const RankSet& ranks) {
  return ranks.empty() ? "none" : fmt::format("{}", fmt::join(ranks, ", "));
}

}  // namespace test
