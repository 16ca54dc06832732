#include "verify/full_size/replica_fold.h"

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

#include "sim/comm/ring_traffic.h"
#include "verify/output/refusal_table.h"

namespace verify {

namespace {

/// Calls of one rank that are alike.
struct CallClass {
  sim::CallRecord call;
  std::int64_t calls = 0;
};

std::vector<CallClass> classes_of(const sim::CallLog& calls) {
  const auto key = [](const sim::CallRecord& call) {
    return std::tuple(call.group, call.site.name, call.operation, call.dtype, call.count, call.root_or_peer,
                      call.bytes_inside, call.bytes_across);
  };
  std::map<decltype(key(calls.front())), std::size_t> known;  // only looked up
  std::vector<CallClass> classes;
  for (const sim::CallRecord& call : calls) {
    const auto [place, is_new] = known.try_emplace(key(call), classes.size());
    if (is_new) classes.push_back({call, 0});
    ++classes[place->second].calls;
  }
  return classes;
}

[[noreturn]] void refuse_fold(const sim::CallRecord& call) {
  refuse_by("replica_fold", sim::text_of(call.site), std::string(sim::name_of(call.operation)),
            call.group->kind);
}

/// The groups of the layout, made when they are first asked for.
class LayoutGroups {
 public:
  LayoutGroups(const sim::Layout& layout, const sim::NodePlacement& nodes) : layout_(layout), nodes_(nodes) {}

  /// Returns the group of this kind that has the rank, and the rank's place in it.
  std::pair<const sim::ProcessGroup*, int> of(const sim::CallRecord& call, int rank) {
    const sim::GroupKind* kind = layout_.find(call.group->kind);
    const auto place = kind == nullptr ? std::nullopt : kind->place_of(rank);
    if (!place) refuse_fold(call);
    auto& group = groups_[{kind, place->group}];
    if (group == nullptr)
      group = std::make_unique<sim::ProcessGroup>(
          sim::ProcessGroup{kind->name(), place->group, kind->members(place->group), nodes_.gpus_per_node});
    return {group.get(), place->position};
  }

 private:
  const sim::Layout& layout_;
  const sim::NodePlacement& nodes_;
  std::map<std::pair<const sim::GroupKind*, int>, std::unique_ptr<sim::ProcessGroup>> groups_;
};

/// Whether two groups lie over nodes in the same way, as the member at a place of both sees it.
bool lie_alike(const sim::ProcessGroup& a, const sim::ProcessGroup& b, int place) {
  if (a.size() != b.size()) return false;
  for (int other = 0; other < a.size(); ++other)
    if (a.on_one_node(place, other) != b.on_one_node(place, other)) return false;
  return true;
}

/// Returns the bytes that a rank sends in one call of a class.
sim::Traffic traffic_of(const CallClass& alike, const sim::ProcessGroup& group, int place, int twin) {
  if (group.size() == 1) return {};
  if (alike.call.operation == sim::Operation::all_to_all_uneven) {
    const sim::ProcessGroup& of_twin = *alike.call.group;
    if (of_twin.place_of(twin) != place || !lie_alike(group, of_twin, place)) refuse_fold(alike.call);
    return {alike.call.bytes_inside, alike.call.bytes_across};
  }
  sim::Call call(alike.call.operation, alike.call.site);
  call.root = alike.call.root_or_peer;
  call.peer = alike.call.root_or_peer;
  call.count = alike.call.count;
  call.dtype = alike.call.dtype;
  return sim::traffic_of(call, group, place);
}

using LedgerKey = std::tuple<std::string_view, std::string_view, sim::Operation, sim::DType>;
using LedgerRows = std::map<LedgerKey, sim::LedgerRow>;

/// Adds the calls of one rank, which are those of its twin, with the bytes that the rank itself sends.
void add_rank(int rank, int twin, const std::vector<CallClass>& of_twin, LayoutGroups& groups,
              LedgerRows& rows) {
  std::map<sim::LedgerRow*, std::int64_t> bytes_of_row;  // every entry is read, in any order
  for (const CallClass& alike : of_twin) {
    const auto [group, place] = groups.of(alike.call, rank);
    const sim::Traffic traffic = traffic_of(alike, *group, place, twin);
    const LedgerKey key(group->kind, alike.call.site.name, alike.call.operation, alike.call.dtype);
    sim::LedgerRow& row = rows[key];
    row.calls += alike.calls;
    row.elements += alike.calls * alike.call.count;
    row.bytes_inside += alike.calls * traffic.bytes_inside;
    row.bytes_across += alike.calls * traffic.bytes_across;
    bytes_of_row[&row] += alike.calls * (traffic.bytes_inside + traffic.bytes_across);
  }
  for (const auto& [row, bytes] : bytes_of_row) {
    ++row->ranks;
    row->most_bytes = std::max(row->most_bytes, bytes);
  }
}

/// Whether all members of each group of a kind are in one block of replicas, and whether each rank has the
/// place of its twin, in a group that lies over nodes like the twin's.
bool is_kept(const char* name, const ReplicaFold& fold, int block, const sim::Layout& layout,
             const sim::NodePlacement& nodes) {
  const sim::GroupKind& kind = *layout.find(name);
  const auto group_of = [&](const sim::GroupKind::Place& place) {
    return sim::ProcessGroup{kind.name(), place.group, kind.members(place.group), nodes.gpus_per_node};
  };
  const auto block_of = [&](int rank) { return layout.dense.coordinates_of(rank)[sim::Axis::dp] / block; };
  for (std::size_t i = 0; i < fold.twin_of.size(); ++i) {
    const int rank = layout.first_rank + static_cast<int>(i);
    if (rank == fold.twin_of[i]) continue;
    const auto own = kind.place_of(rank), of_twin = kind.place_of(fold.twin_of[i]);
    if (own->position != of_twin->position) return false;
    const sim::ProcessGroup group = group_of(*own);
    for (const int member : group.members)
      if (block_of(member) != block_of(rank)) return false;
    if (!lie_alike(group, group_of(*of_twin), own->position)) return false;
  }
  return true;
}

}  // namespace

int replicas_of_a_block(const sim::Layout& layout, const sim::NodePlacement& nodes, bool has_experts) {
  if (!has_experts) return 1;
  for (int block = 1; block < layout.dp; ++block) {
    if (layout.dp % block != 0) continue;
    const auto is_kept_by = [&](const ReplicaFold& fold) {
      return is_kept("tp-ep", fold, block, layout, nodes) && is_kept("ep", fold, block, layout, nodes);
    };
    if (is_kept_by(fold_replicas(layout, block, block, layout.tp)) &&
        is_kept_by(fold_replicas(layout, 2 * block, block, layout.tp)))
      return block;
  }
  return layout.dp;
}

ReplicaFold fold_replicas(const sim::Layout& layout, int replicas, int block, int tp) {
  ReplicaFold fold{.running = {}, .twin_of = {}, .replicas = std::min(replicas, layout.dp), .tp = tp};
  for (int rank = layout.first_rank; rank < layout.first_rank + layout.grid_size; ++rank) {
    sim::PerAxis<int> place = layout.dense.coordinates_of(rank);
    const bool is_upper = fold.replicas > block && 2 * place[sim::Axis::dp] >= layout.dp;
    if (fold.replicas < layout.dp)
      place[sim::Axis::dp] = place[sim::Axis::dp] % block + (is_upper ? layout.dp - block : 0);
    place[sim::Axis::tp] %= tp;
    fold.twin_of.push_back(layout.dense.rank_of(place));
  }
  fold.running = fold.twin_of;
  std::sort(fold.running.begin(), fold.running.end());
  fold.running.erase(std::unique(fold.running.begin(), fold.running.end()), fold.running.end());
  return fold;
}

std::vector<sim::LedgerRow> ledger_of_all(const sim::RunReport& run, const ReplicaFold& fold,
                                          const sim::Layout& layout, const sim::NodePlacement& nodes) {
  std::map<int, std::vector<CallClass>> classes;
  for (const sim::RankReport& rank : run.ranks) classes[rank.rank] = classes_of(rank.calls);
  LayoutGroups groups(layout, nodes);
  LedgerRows rows;
  for (std::size_t i = 0; i < fold.twin_of.size(); ++i) {
    const int twin = fold.twin_of[i];
    add_rank(layout.first_rank + static_cast<int>(i), twin, classes.at(twin), groups, rows);
  }
  std::vector<sim::LedgerRow> ledger;
  for (const auto& [key, row] : rows) {
    ledger.push_back(row);
    std::tie(ledger.back().kind, ledger.back().site, ledger.back().operation, ledger.back().dtype) = key;
  }
  return ledger;
}

}  // namespace verify
