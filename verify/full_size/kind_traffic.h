#pragma once

/// The bytes that all ranks of a pipeline stage send in a call over one kind of groups, inside nodes and
/// across them, and the links that such a call needs.
///
/// Shapes  the bytes of a rank are those of sim/comm/ring_traffic.h. A message over pp goes to
///         `root_or_peer`; one of a ring over cp goes to the next rank, in either direction. Ranks that hold
///         other experts may send other numbers of rows: over tp-ep, ep and etp the ranks of a stage are told
///         apart by their place in ep.
/// Exact   a place of a group determines the stage of its member, or the group lies in one stage, and so for
///         its place in ep. The sums are those over the ranks of the stage, whatever the order of the axes
///         and the size of the nodes are. Nothing is summed over ranks for each call: the places of a ring
///         whose next member is on another node are counted once for each kind.

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "sim/comm/ring_traffic.h"
#include "sim/layout/layout.h"
#include "sim/layout/node_placement.h"
#include "verify/cases/expected_call.h"

namespace verify {

/// The place in ep of the ranks that make a call, where all ranks of the stage make it.
inline constexpr int kAllEpRanks = -1;

/// The links of the groups that ranks of one stage are in.
struct KindLinks {
  int size = 1;                // members of a group
  bool crosses_nodes = false;  // a group has members on several nodes
  int members_on_node = 1;     // of such a group, on the node where it has fewest
};

class KindTraffic {
 public:
  KindTraffic(sim::Layout layout, const sim::NodePlacement& nodes)
      : layout_(std::move(layout)), nodes_(nodes) {}

  /// Returns what all ranks of a stage, or those of them at a place in ep, send if each makes this call once.
  sim::Traffic of(const ExpectedCall& call, int stage, int ep_rank = kAllEpRanks);
  /// Returns the links of a kind for the ranks of a stage.
  KindLinks links(const std::string& kind, int stage);

 private:
  /// The places of a group that are of one stage and one place in ep, and how many groups have the next
  /// member of such a place on the same node, or on another one.
  struct Places {
    std::vector<int> places;  // ascending
    std::vector<std::int64_t> inside,
        across;  // of the places before an index: one more than there are places
    int fewest_on_node = 0;
    bool crosses_nodes = false;
  };
  /// Pairs of different members of a group of which such a place is the first, by the place of the second.
  struct Pairs {
    std::vector<std::int64_t> inside, across;
  };
  static std::int64_t below(const Places& places, const std::vector<std::int64_t>& counts,
                            std::int64_t place);
  static std::int64_t all_reduce_elements(const Places& places, const std::vector<std::int64_t>& counts,
                                          int n, std::int64_t count);
  struct Kind {
    int size = 1;
    int ep = 1;                 // places in ep that are distinguished
    std::vector<Places> parts;  // by stage, and then by place in ep
    std::vector<Pairs> pairs;   // the same; empty until rows are exchanged
  };
  Kind& kind(const std::string& name);
  Kind counted(const sim::GroupKind& kind) const;
  /// Divides the places of a group among the parts. Returns the index of each place among those of its part.
  /// A group that lies in one part has all its places there.
  std::vector<std::size_t> place_in_parts(const std::vector<int>& first, Kind& result) const;
  void count_pairs(const std::string& name, Kind& groups) const;
  sim::Traffic of_part(const ExpectedCall& call, int stage, Kind& groups, std::size_t part) const;
  int stage_of(int rank) const;
  int part_of(int rank, const Kind& groups) const;

  sim::Layout layout_;
  sim::NodePlacement nodes_;
  std::map<std::string, Kind> kinds_;
};

}  // namespace verify
