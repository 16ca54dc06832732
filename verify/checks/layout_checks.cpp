#include "verify/checks/layout_checks.h"

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <cstdint>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <limits>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/base/check.h"
#include "sim/layout/kind_table.h"
#include "verify/output/phrases.h"

namespace verify {

namespace {

using sim::GroupKind;
using sim::KindRow;
using sim::Layout;

/// Two kinds of a layout that the table of kinds relates.
struct KindPair {
  const GroupKind& one;
  const GroupKind& other;
};

/// Returns the pairs of kinds of which the layout has both. `others` is the column of the table that lists
/// the second kinds.
std::vector<KindPair> pairs_of(const Layout& layout, std::vector<std::string_view> KindRow::*others) {
  std::vector<KindPair> pairs;
  for (const KindRow& row : sim::kind_table()) {
    for (const std::string_view name : row.*others) {
      const GroupKind* one = layout.find(row.first_name());
      const GroupKind* other = layout.find(name);
      if (one != nullptr && other != nullptr) pairs.push_back({*one, *other});
    }
  }
  return pairs;
}

/// Whether the axes of two kinds together include every axis of the grid with more than one rank. For
/// example, mp and dp are complementary only if cp is 1, as it always is in legacy layouts.
bool axes_fill_grid(const Layout& layout, const KindPair& pair) {
  const KindRow& one = *sim::find_kind(pair.one.name());
  const KindRow& other = *sim::find_kind(pair.other.name());
  const sim::RankGrid& grid = one.grid == sim::Grid::dense ? layout.dense : layout.expert;
  for (const sim::Axis axis : {sim::Axis::tp, sim::Axis::cp, sim::Axis::ep, sim::Axis::dp, sim::Axis::pp}) {
    const bool is_joined = std::ranges::count(one.axes, axis) > 0 || std::ranges::count(other.axes, axis) > 0;
    if (grid.size(axis) > 1 && !is_joined) return false;
  }
  return true;
}

bool covers_all_ranks(const GroupKind& kind) { return sim::find_kind(kind.name())->covers_all_ranks(); }

bool in_grid(const Layout& layout, int rank) {
  return rank >= layout.first_rank && rank - layout.first_rank < layout.grid_size;
}

/// Returns the group of each rank, indexed by rank - first_rank, with -1 for a rank in no group. The lists of
/// members are walked to build it.
std::vector<int> groups_by_rank(const Layout& layout, const GroupKind& kind) {
  std::vector<int> group_of(static_cast<std::size_t>(layout.grid_size), -1);
  kind.for_each_group([&](int group, std::span<const int> members) {
    for (const int rank : members) {
      SIM_CHECK(in_grid(layout, rank));
      group_of[static_cast<std::size_t>(rank - layout.first_rank)] = group;
    }
  });
  return group_of;
}

/// Finds a rank that is outside of the grid, in a kind twice, or missing where the kind must cover all ranks.
std::optional<std::string> partition_error(const Layout& layout, const GroupKind& kind) {
  std::vector<int> seen(static_cast<std::size_t>(layout.grid_size), 0);
  std::optional<std::string> error;
  kind.for_each_group([&](int group, std::span<const int> members) {
    for (const int rank : members) {
      if (error) return;
      if (!in_grid(layout, rank)) {
        error = fmt::format("{} group {} holds rank {}, which does not exist", kind.name(), group, rank);
      } else if (++seen[static_cast<std::size_t>(rank - layout.first_rank)] > 1) {
        error = fmt::format("{}: rank {} is in two groups, the second is group {}", kind.name(), rank, group);
      }
    }
  });
  if (error || !covers_all_ranks(kind)) return error;
  const auto missing = std::ranges::find(seen, 0);
  if (missing == seen.end()) return std::nullopt;
  return fmt::format("{}: rank {} is in no group", kind.name(), layout.first_rank + (missing - seen.begin()));
}

/// Finds a group of `one` and a group of `other` that share more than one rank, or a rank that is in no
/// group of `other`.
std::optional<std::string> orthogonality_error(const Layout& layout, const GroupKind& one,
                                               const GroupKind& other) {
  const std::vector<int> other_group = groups_by_rank(layout, other);
  std::vector<int> met_by(static_cast<std::size_t>(other.count()), -1);
  std::optional<std::string> error;
  one.for_each_group([&](int group, std::span<const int> members) {
    for (const int rank : members) {
      if (error) return;
      const int met = other_group[static_cast<std::size_t>(rank - layout.first_rank)];
      if (met < 0) {
        error = fmt::format("{}: rank {} is in no group", other.name(), rank);
      } else if (std::exchange(met_by[static_cast<std::size_t>(met)], group) == group) {
        error = fmt::format("{} group {} and {} group {} share more than one rank, rank {} among them",
                            one.name(), group, other.name(), met, rank);
      }
    }
  });
  return error;
}

/// Finds a group of `inner` that does not lie in one group of `outer`.
std::optional<std::string> union_error(const Layout& layout, const GroupKind& outer, const GroupKind& inner) {
  const std::vector<int> outer_group = groups_by_rank(layout, outer);
  std::optional<std::string> error;
  inner.for_each_group([&](int group, std::span<const int> members) {
    const auto group_of = [&](int rank) {
      return outer_group[static_cast<std::size_t>(rank - layout.first_rank)];
    };
    for (const int rank : members) {
      if (error || group_of(rank) == group_of(members.front())) continue;
      error = fmt::format(
          "{} group {} does not lie in one group of {}: rank {} is in group {}, rank {} in group {}",
          inner.name(), group, outer.name(), members.front(), group_of(members.front()), rank,
          group_of(rank));
    }
  });
  return error;
}

CheckResult failed(const char* check, std::string counterexample) {
  return {check, false, std::move(counterexample)};
}

/// One digit of a rank: an axis of the order, with its size in a grid.
struct RankDigit {
  sim::Axis axis;
  int size;
};

/// Returns the digits of a rank in the order of the axes, the fastest varying first.
std::vector<RankDigit> stated_digits(const Layout& layout, bool is_expert) {
  std::vector<RankDigit> digits;
  for (std::size_t begin = 0; begin < layout.order.size(); begin += 3) {
    std::string axis = layout.order.substr(begin, 2);
    for (char& letter : axis) letter = static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
    if (axis == "tp") digits.push_back({sim::Axis::tp, is_expert ? layout.etp : layout.tp});
    if (axis == "cp") digits.push_back({sim::Axis::cp, is_expert ? 1 : layout.cp});
    if (axis == "ep") digits.push_back({sim::Axis::ep, is_expert ? layout.ep : 1});
    if (axis == "dp") digits.push_back({sim::Axis::dp, is_expert ? layout.edp : layout.dp});
    if (axis == "pp") digits.push_back({sim::Axis::pp, layout.pp});
  }
  return digits;
}

/// Returns the coordinates of the `index`-th rank of a grid, without the arithmetic of the layout.
sim::PerAxis<int> stated_coordinates(const std::vector<RankDigit>& digits, int index) {
  sim::PerAxis<int> coordinates;
  for (const RankDigit& digit : digits) {
    coordinates[digit.axis] = index % digit.size;
    index /= digit.size;
  }
  return coordinates;
}

std::string text_of(const sim::PerAxis<int>& coordinates) {
  std::vector<std::string> words;
  for (std::size_t axis = 0; axis < sim::kAxisNames.size(); ++axis)
    words.push_back(fmt::format("{} {}", sim::kAxisNames[axis], coordinates.values[axis]));
  return fmt::format("{}", fmt::join(words, ", "));
}

/// Finds a rank whose coordinates are not those that the order of the axes gives it.
std::optional<std::string> coordinate_error(const Layout& layout) {
  for (const bool is_expert : {false, true}) {
    const sim::RankGrid& grid = is_expert ? layout.expert : layout.dense;
    const std::vector<RankDigit> digits = stated_digits(layout, is_expert);
    for (int index = 0; index < layout.grid_size; ++index) {
      const int rank = layout.first_rank + index;
      const sim::PerAxis<int> stated = stated_coordinates(digits, index);
      const sim::PerAxis<int> made = grid.coordinates_of(rank);
      if (made == stated) continue;
      return fmt::format("rank {} has the coordinates {} in the {} grid, but the order {} gives it {}", rank,
                         text_of(made), is_expert ? "expert" : "dense", layout.order, text_of(stated));
    }
  }
  return std::nullopt;
}

/// Returns the ranks of a pipeline that hold an embedding: those of the model, or the first and the last.
std::vector<int> stated_embeddings(const Layout& layout, const GroupKind& pipelines, int group) {
  std::vector<int> stated;
  for (const std::int64_t rank : layout.embedding_pipeline_ranks)
    stated.push_back(pipelines.member(group, static_cast<int>(rank)));
  if (!stated.empty()) return stated;
  stated.push_back(pipelines.member(group, 0));
  if (pipelines.size() > 1) stated.push_back(pipelines.member(group, pipelines.size() - 1));
  return stated;
}

/// Finds a pipeline whose groups of embeddings are not on the ranks that hold one. The rule book legacy may
/// add the split rank to both groups.
std::optional<std::string> embedding_error(const Layout& layout) {
  const GroupKind& pipelines = *layout.find("pp");
  for (const auto& [name, is_of_words] : {std::pair{"embd", true}, std::pair{"pos_embd", false}}) {
    const GroupKind& kind = *layout.find(name);
    if (kind.count() != pipelines.count())
      return fmt::format("{} has {} groups for {} pipelines", name, kind.count(), pipelines.count());
    for (int group = 0; group < pipelines.count(); ++group) {
      const std::vector<int> members = kind.members(group);
      const std::vector<int> stated = is_of_words ? stated_embeddings(layout, pipelines, group)
                                                  : std::vector<int>{pipelines.member(group, 0)};
      const std::size_t split_ranks = layout.rules == sim::RuleBook::legacy && layout.pp > 1 ? 1 : 0;
      const bool has_stated = std::ranges::all_of(
          stated, [&](int rank) { return std::ranges::find(members, rank) != members.end(); });
      if (has_stated && members.size() <= stated.size() + split_ranks) continue;
      return fmt::format("{} group {} is [{}]; its pipeline has its embeddings on [{}]", name, group,
                         fmt::join(members, ", "), fmt::join(stated, ", "));
    }
  }
  return std::nullopt;
}

}  // namespace

CheckResult check_partition(const Layout& layout) {
  std::int64_t memberships = 0;
  for (const GroupKind& kind : layout.kinds) {
    if (auto error = partition_error(layout, kind)) return failed("partition", *error);
    memberships += std::int64_t{kind.count()} * kind.size();
  }
  return {"partition", true,
          fmt::format("{} kinds over {}, {} memberships", layout.kinds.size(),
                      counted(layout.grid_size, "rank"), memberships)};
}

CheckResult check_orthogonal(const Layout& layout) {
  int pairs = 0;
  for (const KindPair& pair : pairs_of(layout, &KindRow::orthogonal_to)) {
    if (auto error = orthogonality_error(layout, pair.one, pair.other)) {
      return failed("orthogonal", *error);
    }
    ++pairs;
  }
  for (const KindPair& pair : pairs_of(layout, &KindRow::unites)) {
    if (auto error = union_error(layout, pair.one, pair.other)) return failed("orthogonal", *error);
  }
  return {"orthogonal", true,
          fmt::format("{} pairs of kinds share exactly one rank per pair of groups", pairs)};
}

CheckResult check_products(const Layout& layout) {
  std::vector<std::string> products;
  for (const auto& [one, other] : pairs_of(layout, &KindRow::complements)) {
    if (!axes_fill_grid(layout, {one, other})) continue;
    if (std::int64_t{one.size()} * other.size() != layout.grid_size) {
      return failed("products", fmt::format("{} * {} = {} * {}, not {} ranks", one.name(), other.name(),
                                            one.size(), other.size(), layout.grid_size));
    }
    if (auto error = orthogonality_error(layout, one, other)) return failed("products", *error);
    products.push_back(fmt::format("{} {} * {} {}", one.name(), one.size(), other.name(), other.size()));
  }
  return {"products", true,
          fmt::format("{} = {}", fmt::join(products, ", "), counted(layout.grid_size, "rank"))};
}

CheckResult check_pipelines(const Layout& layout) {
  const GroupKind& pipelines = *layout.find("pp");
  std::optional<std::string> error = coordinate_error(layout);
  if (!error) error = embedding_error(layout);
  for (const sim::RankGrid* grid : {&layout.dense, &layout.expert}) {
    const char* name = grid == &layout.dense ? "dense" : "expert";
    pipelines.for_each_group([&](int group, std::span<const int> members) {
      for (std::size_t stage = 0; stage < members.size() && !error; ++stage) {
        sim::PerAxis<int> expected = grid->coordinates_of(members[0]);
        expected[sim::Axis::pp] = static_cast<int>(stage);
        if (grid->coordinates_of(members[stage]) == expected) continue;
        error = fmt::format("pipeline {}: rank {} is not stage {} of it in the {} grid", group,
                            members[stage], stage, name);
      }
    });
  }
  if (error) return failed("pipelines", *error);
  return {"pipelines", true,
          fmt::format("{} of {}, the same in the dense and the expert grid",
                      counted(pipelines.count(), "pipeline"), counted(pipelines.size(), "rank"))};
}

CheckResult check_creation(const Layout& layout) {
  std::vector<int> listed(static_cast<std::size_t>(layout.call_count()), 0);
  std::vector<int> entered(listed.size(), 0);
  for (std::size_t k = 0; k < layout.kinds.size(); ++k) {
    const GroupKind& kind = layout.kinds[k];
    const sim::CallSequence calls = layout.calls_of(static_cast<int>(k));
    for (int group = 0; group < kind.count(); ++group) {
      const auto call = static_cast<std::size_t>(calls.call_of(group));
      if (call >= listed.size() || listed[call] != 0) {
        return failed(
            "creation",
            fmt::format("{} group {} is created by new_group call {}, which creates another group or none",
                        kind.name(), group, call));
      }
      listed[call] = kind.size();
    }
    for (int i = 0; i < layout.grid_size; ++i) {
      const int rank = layout.first_rank + i;
      const auto place = kind.place_of(rank);
      if (!place) continue;
      if (kind.member(place->group, place->position) != rank) {
        return failed("creation",
                      fmt::format("rank {} enters {} group {} as member {}, which lists rank {} there", rank,
                                  kind.name(), place->group, place->position,
                                  kind.member(place->group, place->position)));
      }
      ++entered[static_cast<std::size_t>(calls.call_of(place->group))];
    }
  }
  for (std::size_t call = 0; call < listed.size(); ++call) {
    if (listed[call] == entered[call]) continue;
    return failed("creation", fmt::format("new_group call {} lists {} ranks, but {} enter it", call,
                                          listed[call], entered[call]));
  }
  return {"creation", true,
          fmt::format("{} new_group calls, each entered by exactly the ranks it lists", listed.size())};
}

CheckResult check_nodes(const Layout& layout, const sim::NodePlacement& nodes) {
  std::vector<std::string> counts;
  std::vector<const char*> names = {"tp", "dp"};
  if (layout.ep > 1) names.push_back("ep");
  for (const char* name : names) {
    const GroupKind& kind = *layout.find(name);
    const int from_groups = nodes.groups_crossing_node(kind);
    std::vector<int> lowest(static_cast<std::size_t>(kind.count()), std::numeric_limits<int>::max());
    std::vector<int> highest(lowest.size(), -1);
    for (int i = 0; i < layout.grid_size; ++i) {
      const int rank = layout.first_rank + i;
      const auto place = kind.place_of(rank);
      if (!place) return failed("nodes", fmt::format("{}: rank {} is in no group", name, rank));
      const auto group = static_cast<std::size_t>(place->group);
      lowest[group] = std::min(lowest[group], nodes.node_of(rank));
      highest[group] = std::max(highest[group], nodes.node_of(rank));
    }
    int from_ranks = 0;
    for (std::size_t group = 0; group < lowest.size(); ++group)
      from_ranks += lowest[group] != highest[group] ? 1 : 0;
    if (from_groups != from_ranks) {
      return failed(
          "nodes",
          fmt::format(
              "{} {} groups cross a node by their lists of members, but {} by the places of the ranks",
              from_groups, name, from_ranks));
    }
    counts.push_back(fmt::format("{} of {} {} groups", from_groups, kind.count(), name));
  }
  return {"nodes", true,
          fmt::format("{} cross a node of {} GPUs", fmt::join(counts, ", "), nodes.gpus_per_node)};
}

CheckResult check_expected_groups(const Layout& layout, const std::string& kind,
                                  const std::vector<std::vector<int>>& expected) {
  const std::string check = fmt::format("expected {}", kind);
  const GroupKind* found = layout.find(kind);
  if (found == nullptr) return {check, false, fmt::format("this layout has no {} groups", kind)};
  for (int group = 0; group < found->count(); ++group) {
    const std::vector<int> members = found->members(group);
    if (static_cast<std::size_t>(group) < expected.size() &&
        members == expected[static_cast<std::size_t>(group)]) {
      continue;
    }
    return {check, false,
            fmt::format("group {} is [{}], but the source prints {}", group, fmt::join(members, ", "),
                        static_cast<std::size_t>(group) < expected.size()
                            ? fmt::format("[{}]", fmt::join(expected[static_cast<std::size_t>(group)], ", "))
                            : "no such group")};
  }
  if (expected.size() != static_cast<std::size_t>(found->count())) {
    return {
        check, false,
        fmt::format("the layout has {} groups, but the source prints {}", found->count(), expected.size())};
  }
  return {check, true,
          fmt::format("{}, member by member as the source prints them",
                      counted(static_cast<std::int64_t>(expected.size()), "group"))};
}

namespace {

/// The number of layers of a pipeline rank, of which the options may give the first and the last.
std::int64_t layers_of_rank(const sim::LayerRequest& request, std::int64_t rank) {
  const auto& first = request.num_layers_in_first_pipeline_stage;
  const auto& last = request.num_layers_in_last_pipeline_stage;
  const std::int64_t pp = request.pipeline_model_parallel_size;
  if (first && rank == 0) return *first;
  if (last && rank == pp - 1) return *last;
  const std::int64_t others = pp - (first ? 1 : 0) - (last ? 1 : 0);
  return (request.num_layers - first.value_or(0) - last.value_or(0)) / others;
}

/// The number of layers of each stage, in the order of the model.
std::vector<std::int64_t> stated_counts(const sim::LayerRequest& request) {
  const std::int64_t pp = request.pipeline_model_parallel_size;
  const std::int64_t chunks = request.virtual_pipeline_model_parallel_size.value_or(1);
  const std::int64_t embedding = request.account_for_embedding_in_pipeline_split ? 1 : 0;
  const std::int64_t loss = request.account_for_loss_in_pipeline_split ? 1 : 0;
  std::vector<std::int64_t> counts;
  for (std::int64_t stage = 0; stage < pp * chunks; ++stage) {
    const std::int64_t of_rank = embedding + loss > 0 ? (request.num_layers + embedding + loss) / pp
                                                      : layers_of_rank(request, stage % pp);
    std::int64_t count = of_rank / chunks;
    if (stage == 0) count -= embedding;
    if (stage == pp * chunks - 1) count -= loss;
    counts.push_back(count);
  }
  return counts;
}

}  // namespace

std::string wrong_layer_count(const sim::LayerRequest& request, const sim::LayerPlacement& placement) {
  if (request.pipeline_model_parallel_layout) return "";
  const std::vector<std::int64_t> counts = stated_counts(request);
  const auto ranks = static_cast<std::int64_t>(placement.stages.size());
  std::int64_t first_layer = 0;
  for (std::int64_t stage = 0; stage < std::ssize(counts); ++stage) {
    const std::int64_t count = counts[static_cast<std::size_t>(stage)];
    const sim::StageLayers& made =
        placement.stages[static_cast<std::size_t>(stage % ranks)][static_cast<std::size_t>(stage / ranks)];
    if (made.count != count || (count > 0 && made.offset != first_layer)) {
      return fmt::format(
          "chunk {} of pipeline rank {} holds {} from layer {} on, but the options give it {} from layer {} "
          "on",
          stage / ranks, stage % ranks, counted(made.count, "layer"), made.offset, count, first_layer);
    }
    first_layer += count;
  }
  return "";
}

}  // namespace verify
