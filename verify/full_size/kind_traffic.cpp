#include "verify/full_size/kind_traffic.h"

#include <algorithm>
#include <span>

#include "sim/base/check.h"

namespace verify {

namespace {

using sim::Operation;

/// The members of a group on each of its nodes; the nodes ascend.
struct OfNode {
  int node;
  int members;
};
std::vector<OfNode> nodes_of(std::span<const int> nodes) {
  std::vector<int> sorted(nodes.begin(), nodes.end());
  std::sort(sorted.begin(), sorted.end());
  std::vector<OfNode> counts;
  for (const int node : sorted) {
    if (counts.empty() || counts.back().node != node) counts.push_back({node, 0});
    ++counts.back().members;
  }
  return counts;
}

/// The elements that the ranks at counted places of a ring send in an all_reduce. `below` are the numbers of
/// ranks at places below an index; the first count % n of n chunks have one element more.
std::int64_t all_reduce_elements(const std::vector<std::int64_t>& below, std::int64_t count) {
  const auto n = static_cast<std::int64_t>(below.size()) - 1;
  const auto longer = static_cast<std::size_t>(count % n);
  std::int64_t elements = below.back() * 2 * (count - count / n);
  if (longer == 0) return elements;
  elements -= below[longer];                                               // their own chunks
  elements -= below[longer - 1] + below.back() - below[below.size() - 2];  // those of the next place
  return elements;
}

}  // namespace

KindTraffic::Kind KindTraffic::counted(const sim::GroupKind& kind) const {
  const int n = kind.size();
  const auto places = static_cast<std::size_t>(n);
  Kind result{.size = n, .stages = std::vector<Places>(static_cast<std::size_t>(layout_.pp))};
  for (Places& stage : result.stages) {
    stage.inside.resize(places + 1);
    stage.across.resize(places + 1);
    stage.fewest_on_node = n;
  }
  const int stride = layout_.dense.stride(sim::Axis::pp);
  std::vector<int> nodes(places);
  kind.for_each_group([&](int, std::span<const int> members) {
    for (std::size_t i = 0; i < places; ++i) nodes[i] = nodes_.node_of(members[i]);
    const std::vector<OfNode> counts = nodes_of(nodes);
    const int fewest = std::ranges::min_element(counts, {}, &OfNode::members)->members;
    for (std::size_t i = 0; i < places; ++i) {
      const int stage_of = (members[i] - layout_.first_rank) / stride % layout_.pp;
      Places& stage = result.stages[static_cast<std::size_t>(stage_of)];
      const bool is_inside = nodes[i] == nodes[i + 1 == places ? 0 : i + 1];
      ++(is_inside ? stage.inside : stage.across)[i + 1];
      const int here = std::ranges::lower_bound(counts, nodes[i], {}, &OfNode::node)->members;
      stage.pairs_inside += here - 1;
      stage.pairs_across += n - here;
      stage.crosses_nodes = stage.crosses_nodes || counts.size() > 1;
      stage.fewest_on_node = std::min(stage.fewest_on_node, fewest);
    }
  });
  for (Places& stage : result.stages) {
    for (std::size_t i = 0; i < places; ++i) {
      stage.inside[i + 1] += stage.inside[i];
      stage.across[i + 1] += stage.across[i];
    }
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
      return {all_reduce_elements(places.inside, call.elements) * element,
              all_reduce_elements(places.across, call.elements) * element};
    case Operation::reduce_scatter:
    case Operation::all_gather:
      return along_ring(bytes * (n - 1));
    case Operation::broadcast: {
      const auto last = static_cast<std::size_t>((call.root_or_peer + n - 1) % n);  // it sends nothing
      return {bytes * (places.inside.back() - places.inside[last + 1] + places.inside[last]),
              bytes * (places.across.back() - places.across[last + 1] + places.across[last])};
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
