#include "sim/layout/kind_table.h"

#include <algorithm>
#include <cstddef>
#include <fmt/format.h>
#include <utility>

namespace sim {

namespace {

const RankGrid& grid_of(const Layout& layout, const KindRow& row) {
  return row.grid == Grid::dense ? layout.dense : layout.expert;
}

GroupKind made_kind(const KindRow& row, const Layout& layout, const KindSizes& sizes) {
  const RankGrid& grid = grid_of(layout, row);
  const Listing listing = grid.listing(row.axes);
  const int size = grid.group_size(row.axes);
  const std::string name(row.name);
  switch (row.cut) {
    case Cut::instance:
      return GroupKind(name, listing, size / layout.instances);
    case Cut::across_instances:
      return GroupKind(name, listing, layout.instances, size / layout.instances);
    case Cut::ranks_of_instance:
      return GroupKind(name, listing, layout.grid_size / layout.instances);
    case Cut::embedding:
      return GroupKind::picked(name, GroupKind(name, listing, size), sizes.embedding);
    case Cut::position_embedding:
      return GroupKind::picked(name, GroupKind(name, listing, size), sizes.position_embedding);
    case Cut::whole:
    case Cut::level:
      break;
  }
  return GroupKind(name, listing, size);
}

/// Returns the kinds of the levels, the innermost first. Members of a group of level k are as far apart as
/// the product of the sizes of the levels below it.
std::vector<GroupKind> levels_of(const KindRow& row, const Layout& layout, const std::vector<int>& levels) {
  const Listing listing = grid_of(layout, row).listing(row.axes);
  const std::string_view stem = row.name.substr(0, row.name.size() - 1);
  std::vector<GroupKind> kinds;
  int below = 1;
  for (std::size_t k = 0; k < levels.size(); ++k) {
    kinds.emplace_back(fmt::format("{}{}", stem, k), listing, levels[k], below);
    below *= levels[k];
  }
  return kinds;
}

std::vector<GroupKind> kinds_of(const KindRow& row, const Layout& layout, const KindSizes& sizes) {
  const bool cuts_instances = row.cut == Cut::instance || row.cut == Cut::across_instances;
  if (cuts_instances && layout.instances == 1) return {};
  if (layout.rules == RuleBook::legacy && !row.in_legacy) return {};
  if (row.cut == Cut::level) return levels_of(row, layout, sizes.hierarchical_context_parallel_sizes);
  return {made_kind(row, layout, sizes)};
}

}  // namespace

const std::vector<KindRow>& kind_table() {
  using enum Axis;
  using enum Grid;
  static const std::vector<KindRow> rows = {
      {.name = "dp-cp",
       .description = "DATA_PARALLEL_GROUP_WITH_CP",
       .axes = {dp, cp},
       .orthogonal_to = {"tp", "pp"}},
      {.name = "intra-dp-cp",
       .description = "INTRA_PARTIAL_DATA_PARALLEL_GROUP_WITH_CP",
       .axes = {dp, cp},
       .cut = Cut::instance,
       .starts_loop = false,
       .same_as = "dp-cp",
       .orthogonal_to = {"mp"}},
      {.name = "dp",
       .description = "DATA_PARALLEL_GROUP",
       .axes = {dp},
       .in_legacy = true,
       .orthogonal_to = {"tp", "cp", "pp", "tp-cp"}},
      {.name = "cp",
       .description = "CONTEXT_PARALLEL_GROUP",
       .axes = {cp},
       .orthogonal_to = {"tp", "pp", "tp-dp"}},
      {.name = "hcp-L*",
       .description = "HIERARCHICAL_CONTEXT_PARALLEL_GROUP_L*",
       .axes = {cp},
       .cut = Cut::level,
       .starts_loop = false,
       .same_as = "cp",
       .orthogonal_to = {"hcp-L1", "tp-dp"}},
      {.name = "mp",
       .description = "MODEL_PARALLEL_GROUP",
       .axes = {tp, pp},
       .in_legacy = true,
       .complements = {"dp-cp", "dp"}},
      {.name = "tp",
       .description = "TENSOR_MODEL_PARALLEL_GROUP",
       .axes = {tp},
       .in_legacy = true,
       .orthogonal_to = {"pp"}},
      {.name = "pp", .description = "PIPELINE_MODEL_PARALLEL_GROUP", .axes = {pp}, .in_legacy = true},
      {.name = "embd",
       .description = "EMBEDDING_GROUP",
       .axes = {pp},
       .cut = Cut::embedding,
       .in_legacy = true,
       .starts_loop = false},
      {.name = "pos_embd",
       .description = "POSITION_EMBEDDING_GROUP",
       .axes = {pp},
       .cut = Cut::position_embedding,
       .in_legacy = true,
       .starts_loop = false},
      {.name = "tp-dp-cp",
       .description = "TENSOR_AND_DATA_PARALLEL_GROUP_WITH_CP",
       .axes = {tp, dp, cp},
       .complements = {"pp"}},
      {.name = "tp-dp", .description = "TENSOR_AND_DATA_PARALLEL_GROUP", .axes = {tp, dp}},
      {.name = "tp-cp", .description = "TENSOR_AND_CONTEXT_PARALLEL_GROUP", .axes = {tp, cp}},
      {.name = "ep",
       .description = "EXPERT_MODEL_PARALLEL_GROUP",
       .grid = expert,
       .axes = {ep},
       .orthogonal_to = {"etp", "edp", "pp"}},
      {.name = "etp",
       .description = "EXPERT_TENSOR_PARALLEL_GROUP",
       .grid = expert,
       .axes = {tp},
       .orthogonal_to = {"edp"}},
      {.name = "tp-ep",
       .description = "EXPERT_TENSOR_AND_MODEL_PARALLEL_GROUP",
       .grid = expert,
       .axes = {tp, ep},
       .orthogonal_to = {"edp"}},
      {.name = "tp-ep-pp",
       .description = "EXPERT_TENSOR_MODEL_PIPELINE_PARALLEL_GROUP",
       .grid = expert,
       .axes = {tp, ep, pp},
       .complements = {"edp"}},
      {.name = "edp", .description = "EXPERT_DATA_PARALLEL_GROUP", .grid = expert, .axes = {dp}},
      {.name = "intra-edp",
       .description = "HIERARCHICAL_EXPERT_DATA_PARALLEL_GROUP_L0",
       .grid = expert,
       .axes = {dp},
       .cut = Cut::instance,
       .starts_loop = false,
       .same_as = "edp",
       .orthogonal_to = {"inter-edp", "tp-ep-pp"}},
      {.name = "inter-edp",
       .description = "HIERARCHICAL_EXPERT_DATA_PARALLEL_GROUP_L1",
       .grid = expert,
       .axes = {dp},
       .cut = Cut::across_instances,
       .starts_loop = false,
       .same_as = "edp"},
      {.name = "intra-dist-opt",
       .description = "INTRA_DISTRIBUTED_OPTIMIZER_INSTANCE_GROUP",
       .grid = expert,
       .axes = {tp, ep, pp},
       .cut = Cut::ranks_of_instance,
       .complements = {"inter-edp"},
       .unites = {"tp-ep-pp", "intra-edp"}},
  };
  return rows;
}

bool KindRow::describes(std::string_view kind) const {
  if (cut != Cut::level) return kind == name;
  const std::string_view stem = name.substr(0, name.size() - 1);
  return kind.starts_with(stem) && kind.size() > stem.size() &&
         kind.find_first_not_of("0123456789", stem.size()) == std::string_view::npos;
}

std::string KindRow::first_name() const {
  return cut == Cut::level ? fmt::format("{}0", name.substr(0, name.size() - 1)) : std::string(name);
}

std::string KindRow::description_of(std::string_view kind) const {
  if (cut != Cut::level) return std::string(description);
  const std::string_view level = kind.substr(name.size() - 1);
  return fmt::format("{}{}", description.substr(0, description.size() - 1), level);
}

const KindRow* find_kind(std::string_view name) {
  const std::vector<KindRow>& rows = kind_table();
  const auto row =
      std::find_if(rows.begin(), rows.end(), [&](const KindRow& r) { return r.describes(name); });
  return row == rows.end() ? nullptr : &*row;
}

std::string kind_described_as(std::string_view description) {
  for (const KindRow& row : kind_table()) {
    if (row.cut != Cut::level) {
      if (row.description == description) return std::string(row.name);
      continue;
    }
    const std::string_view stem = row.description.substr(0, row.description.size() - 1);
    if (!description.starts_with(stem)) continue;
    const std::string kind =
        fmt::format("{}{}", row.name.substr(0, row.name.size() - 1), description.substr(stem.size()));
    if (row.describes(kind)) return kind;
  }
  return "";
}

std::vector<std::string> all_kind_names() {
  std::vector<std::string> names;
  for (const KindRow& row : kind_table()) names.emplace_back(row.name);
  return names;
}

void add_kinds(const KindSizes& sizes, Layout& layout) {
  for (const KindRow& row : kind_table()) {
    std::vector<GroupKind> kinds = kinds_of(row, layout, sizes);
    if (kinds.empty()) continue;
    if (row.starts_loop) layout.creation.push_back({});
    for (GroupKind& kind : kinds) {
      layout.creation.back().kinds.push_back(static_cast<int>(layout.kinds.size()));
      layout.kinds.push_back(std::move(kind));
    }
  }
}

}  // namespace sim
