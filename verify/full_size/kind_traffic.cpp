#include "verify/full_size/kind_traffic.h"

#include <algorithm>
#include <numeric>
#include <span>
#include <utility>

#include "sim/base/check.h"

namespace verify {

namespace {

using sim::Operation;

/// Counts the members of a group on each of its nodes.
class NodeCount {
 public:
  void count(std::span<const int> nodes) {
    sorted_.assign(nodes.begin(), nodes.end());
    if (!std::is_sorted(sorted_.begin(), sorted_.end())) std::sort(sorted_.begin(), sorted_.end());
    counts_.clear();
    for (const int node : sorted_) {
      if (counts_.empty() || counts_.back().first != node) counts_.emplace_back(node, 0);
      ++counts_.back().second;
    }
  }
  int nodes() const { return static_cast<int>(counts_.size()); }
  int fewest() const { return std::ranges::min_element(counts_, {}, &Count::second)->second; }

 private:
  using Count = std::pair<int, int>;  // a node, and its members
  std::vector<int> sorted_;
  std::vector<Count> counts_;  // the nodes ascend
};

}  // namespace

/// Returns how many of the counted ranks are at places below this one.
std::int64_t KindTraffic::below(const Places& places, const std::vector<std::int64_t>& counts,
                                std::int64_t place) {
  const auto end = std::ranges::lower_bound(places.places, place);
  return counts[static_cast<std::size_t>(end - places.places.begin())];
}

/// Returns the elements that the counted ranks send in an all_reduce over n ranks. The first count % n of n
/// chunks have one element more. A rank sends all elements twice, less its own chunk and that of the next
/// place.
std::int64_t KindTraffic::all_reduce_elements(const Places& places, const std::vector<std::int64_t>& counts,
                                              int n, std::int64_t count) {
  const std::int64_t longer = count % n;
  std::int64_t elements = counts.back() * 2 * (count - count / n);
  if (longer == 0) return elements;
  const std::int64_t at_the_end =
      counts.back() - below(places, counts, n - 1);  // their next chunk is the first
  elements -= below(places, counts, longer) + below(places, counts, longer - 1) + at_the_end;
  return elements;
}

int KindTraffic::stage_of(int rank) const {
  return (rank - layout_.first_rank) / layout_.dense.stride(sim::Axis::pp) % layout_.pp;
}

int KindTraffic::part_of(int rank, const Kind& groups) const {
  const int ep_rank = groups.ep == 1 ? 0 : layout_.expert.coordinates_of(rank)[sim::Axis::ep];
  return stage_of(rank) * groups.ep + ep_rank;
}

std::vector<std::size_t> KindTraffic::place_in_parts(const std::vector<int>& first, Kind& result) const {
  std::vector<std::size_t> index(first.size());
  const auto is_one = [&](const auto& of) {
    return std::ranges::all_of(first, [&](int rank) { return of(rank) == of(first.front()); });
  };
  const auto stage_of_rank = [&](int rank) { return stage_of(rank); };
  const auto ep_rank_of = [&](int rank) { return part_of(rank, result) % result.ep; };
  const bool is_in_one_stage = is_one(stage_of_rank), is_at_one_ep_rank = is_one(ep_rank_of);
  for (std::size_t i = 0; i < first.size(); ++i) {
    for (int part = 0; part < std::ssize(result.parts); ++part) {
      if (!is_in_one_stage && part / result.ep != stage_of(first[i])) continue;
      if (!is_at_one_ep_rank && part % result.ep != ep_rank_of(first[i])) continue;
      std::vector<int>& places = result.parts[static_cast<std::size_t>(part)].places;
      index[i] = places.size();
      places.push_back(static_cast<int>(i));
    }
  }
  return index;
}

KindTraffic::Kind KindTraffic::counted(const sim::GroupKind& kind) const {
  const std::string& name = kind.name();
  const bool is_of_experts = name == "tp-ep" || name == "ep" || name == "etp";
  Kind result{.size = kind.size(), .ep = is_of_experts ? layout_.ep : 1};
  result.parts.resize(static_cast<std::size_t>(layout_.pp * result.ep));
  const std::vector<int> first = kind.members(0);
  const std::vector<std::size_t> index = place_in_parts(first, result);
  for (Places& part : result.parts) {
    part.inside.resize(part.places.size() + 1);
    part.across.resize(part.places.size() + 1);
    part.fewest_on_node = result.size;
  }
  NodeCount members_on;
  std::vector<int> nodes(first.size());
  kind.for_each_group([&](int, std::span<const int> members) {
    std::ranges::transform(members, nodes.begin(), [&](int rank) { return nodes_.node_of(rank); });
    members_on.count(nodes);
    const int fewest = members_on.fewest();
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      Places& part = result.parts[static_cast<std::size_t>(part_of(members[i], result))];
      const bool is_inside = nodes[i] == nodes[i + 1 == nodes.size() ? 0 : i + 1];
      ++(is_inside ? part.inside : part.across)[index[i] + 1];
      part.crosses_nodes = part.crosses_nodes || members_on.nodes() > 1;
      part.fewest_on_node = std::min(part.fewest_on_node, fewest);
    }
  });
  for (Places& part : result.parts) {
    std::partial_sum(part.inside.begin(), part.inside.end(), part.inside.begin());
    std::partial_sum(part.across.begin(), part.across.end(), part.across.begin());
  }
  return result;
}

void KindTraffic::count_pairs(const std::string& name, Kind& groups) const {
  if (!groups.pairs.empty()) return;
  const auto n = static_cast<std::size_t>(groups.size);
  groups.pairs.assign(groups.parts.size(), {std::vector<std::int64_t>(n), std::vector<std::int64_t>(n)});
  layout_.find(name)->for_each_group([&](int, std::span<const int> members) {
    for (std::size_t from = 0; from < n; ++from) {
      Pairs& pairs = groups.pairs[static_cast<std::size_t>(part_of(members[from], groups))];
      const int node = nodes_.node_of(members[from]);
      for (std::size_t to = 0; to < n; ++to)
        if (to != from) ++(nodes_.node_of(members[to]) == node ? pairs.inside : pairs.across)[to];
    }
  });
}

KindTraffic::Kind& KindTraffic::kind(const std::string& name) {
  const auto known = kinds_.find(name);
  if (known != kinds_.end()) return known->second;
  const sim::GroupKind* kind = layout_.find(name);
  SIM_CHECK(kind != nullptr);
  return kinds_.emplace(name, counted(*kind)).first->second;
}

KindLinks KindTraffic::links(const std::string& name, int stage) {
  const Kind& groups = kind(name);
  KindLinks links{.size = groups.size, .crosses_nodes = false, .members_on_node = groups.size};
  for (int ep_rank = 0; ep_rank < groups.ep; ++ep_rank) {
    const Places& part = groups.parts[static_cast<std::size_t>(stage * groups.ep + ep_rank)];
    links.crosses_nodes = links.crosses_nodes || part.crosses_nodes;
    links.members_on_node = std::min(links.members_on_node, part.fewest_on_node);
  }
  return links;
}

sim::Traffic KindTraffic::of(const ExpectedCall& call, int stage, int ep_rank) {
  Kind& groups = kind(call.group);
  if (groups.size == 1) return {};
  SIM_CHECK(ep_rank == kAllEpRanks || groups.ep == layout_.ep);
  if (call.operation == Operation::all_to_all || call.operation == Operation::all_to_all_uneven)
    count_pairs(call.group, groups);
  sim::Traffic sum;
  for (int at = 0; at < groups.ep; ++at) {
    if (ep_rank != kAllEpRanks && at != ep_rank) continue;
    const sim::Traffic sent = of_part(call, stage, groups, static_cast<std::size_t>(stage * groups.ep + at));
    sum.bytes_inside += sent.bytes_inside;
    sum.bytes_across += sent.bytes_across;
  }
  return sum;
}

sim::Traffic KindTraffic::of_part(const ExpectedCall& call, int stage, Kind& groups, std::size_t part) const {
  const int n = groups.size;
  const Places& places = groups.parts[part];
  const std::int64_t element = sim::size_of(call.dtype), bytes = call.elements * element;
  const auto along_ring = [&](std::int64_t of_rank) {
    return sim::Traffic{places.inside.back() * of_rank, places.across.back() * of_rank};
  };
  switch (call.operation) {
    case Operation::all_reduce:
      return {all_reduce_elements(places, places.inside, n, call.elements) * element,
              all_reduce_elements(places, places.across, n, call.elements) * element};
    case Operation::reduce_scatter:
    case Operation::all_gather:
      return along_ring(bytes * (n - 1));
    case Operation::broadcast: {
      const int last = (call.root_or_peer + n - 1) % n;  // it sends nothing
      const auto senders = [&](const std::vector<std::int64_t>& counts) {
        return counts.back() - below(places, counts, last + 1) + below(places, counts, last);
      };
      return {bytes * senders(places.inside), bytes * senders(places.across)};
    }
    case Operation::all_to_all:
    case Operation::all_to_all_uneven: {
      const Pairs& pairs = groups.pairs[part];
      sim::Traffic sent;
      for (std::size_t to = 0; to < pairs.inside.size(); ++to) {
        const std::int64_t block = call.elements_to.empty() ? bytes : call.elements_to[to] * element;
        sent.bytes_inside += pairs.inside[to] * block;
        sent.bytes_across += pairs.across[to] * block;
      }
      return sent;
    }
    case Operation::send: {
      // The way back to the place before is as long as the way from it.
      const bool is_back = call.group == "pp" && call.root_or_peer == (stage + n - 1) % n;
      const Places& way = is_back ? groups.parts[static_cast<std::size_t>(call.root_or_peer)] : places;
      return {way.inside.back() * bytes, way.across.back() * bytes};
    }
    case Operation::recv:
      return {};
    default:
      SIM_CHECK(false);
  }
  return {};
}

}  // namespace verify
