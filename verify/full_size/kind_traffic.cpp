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
  int on(int node) const { return std::ranges::lower_bound(counts_, node, {}, &Count::first)->second; }

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

KindTraffic::Kind KindTraffic::counted(const sim::GroupKind& kind) const {
  const int n = kind.size();
  Kind result{.size = n, .stages = std::vector<Places>(static_cast<std::size_t>(layout_.pp))};
  // The index of each place among those of its stage. A group that lies in one stage has all places there.
  std::vector<std::size_t> index(static_cast<std::size_t>(n));
  const std::vector<int> first = kind.members(0);
  const bool is_in_one_stage =
      std::ranges::all_of(first, [&](int rank) { return stage_of(rank) == stage_of(first.front()); });
  for (int place = 0; place < n; ++place) {
    const auto i = static_cast<std::size_t>(place);
    const int stage = stage_of(first[i]);
    for (int s = 0; s < layout_.pp; ++s) {
      if (!is_in_one_stage && s != stage) continue;
      std::vector<int>& places = result.stages[static_cast<std::size_t>(s)].places;
      index[i] = places.size();
      places.push_back(place);
    }
  }
  for (Places& stage : result.stages) {
    stage.inside.resize(stage.places.size() + 1);
    stage.across.resize(stage.places.size() + 1);
    stage.fewest_on_node = n;
  }
  NodeCount members_on;
  std::vector<int> nodes(first.size());
  kind.for_each_group([&](int, std::span<const int> members) {
    std::ranges::transform(members, nodes.begin(), [&](int rank) { return nodes_.node_of(rank); });
    members_on.count(nodes);
    const int fewest = members_on.fewest();
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      Places& stage = result.stages[static_cast<std::size_t>(stage_of(members[i]))];
      const bool is_inside = nodes[i] == nodes[i + 1 == nodes.size() ? 0 : i + 1];
      ++(is_inside ? stage.inside : stage.across)[index[i] + 1];
      const int here = members_on.on(nodes[i]);
      stage.pairs_inside += here - 1;
      stage.pairs_across += n - here;
      stage.crosses_nodes = stage.crosses_nodes || members_on.nodes() > 1;
      stage.fewest_on_node = std::min(stage.fewest_on_node, fewest);
    }
  });
  for (Places& stage : result.stages) {
    std::partial_sum(stage.inside.begin(), stage.inside.end(), stage.inside.begin());
    std::partial_sum(stage.across.begin(), stage.across.end(), stage.across.begin());
  }
  return result;
}

const KindTraffic::Kind& KindTraffic::kind(const std::string& name) {
  const auto known = kinds_.find(name);
  if (known != kinds_.end()) return known->second;
  const sim::GroupKind* kind = layout_.find(name);
  CHECK(kind != nullptr);
  return kinds_.emplace(name, counted(*kind)).first->second;
}

KindLinks KindTraffic::links(const std::string& name, int stage) {
  const Kind& groups = kind(name);
  const Places& places = groups.stages[static_cast<std::size_t>(stage)];
  return {groups.size, places.crosses_nodes, places.fewest_on_node};
}

sim::Traffic KindTraffic::of(const ExpectedCall& call, int stage) {
  const Kind& groups = kind(call.group);
  const int n = groups.size;
  if (n == 1) return {};
  const Places& places = groups.stages[static_cast<std::size_t>(stage)];
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
      return {places.pairs_inside * bytes, places.pairs_across * bytes};
    case Operation::send: {
      // The way back to the place before is as long as the way from it.
      const bool is_back = call.group == "pp" && call.root_or_peer == (stage + n - 1) % n;
      const Places& way = is_back ? groups.stages[static_cast<std::size_t>(call.root_or_peer)] : places;
      return {way.inside.back() * bytes, way.across.back() * bytes};
    }
    case Operation::recv:
      return {};
    default:
      CHECK(false);
  }
  return {};
}

}  // namespace verify
