#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <optional>

#include "sim/base/error.h"
#include "sim/layout/kind_table.h"
#include "verify/program/commands.h"
#include "verify/program/groups_against.h"
#include "verify/program/run_from.h"
#include "verify/requests/command_requests.h"
#include "verify/views/groups_view.h"
#include "verify/vocabulary/nearest_name.h"

namespace verify {

namespace {

std::vector<const sim::GroupKind*> selected_kinds(const GroupsRequest& request) {
  const sim::Layout& layout = request.layout;
  std::vector<const sim::GroupKind*> selected;
  const std::vector<std::string>& names = request.kinds;
  for (const sim::GroupKind& kind : layout.kinds) {
    if (names.empty() || std::find(names.begin(), names.end(), kind.name()) != names.end())
      selected.push_back(&kind);
  }
  for (const std::string& name : names) {
    if (layout.find(name) != nullptr) continue;
    std::vector<std::string> present;
    for (const sim::GroupKind& kind : layout.kinds) present.push_back(kind.name());
    const sim::KindRow* row = sim::find_kind(name);
    const bool exists = row != nullptr;
    const std::string nearest = exists ? std::string(row->same_as) : nearest_name(name, present);
    sim::refuse(
        {.code = exists ? "absent_kind" : "unknown_kind",
         .option = "--kind",
         .numbers = fmt::format("'{}'", name),
         .rule = exists ? fmt::format("this layout has no such kind; it has {}", fmt::join(present, ", "))
                        : "the value is a group kind of the layout",
         .hint = nearest.empty() ? "shardproof list" : "--kind " + nearest});
  }
  return selected;
}

std::optional<int> selected_rank(const GroupsRequest& request) {
  const sim::Layout& layout = request.layout;
  const std::optional<std::int64_t>& rank = request.rank;
  if (!rank) return std::nullopt;
  const std::int64_t last = layout.first_rank + layout.grid_size - 1;
  if (*rank >= layout.first_rank && *rank <= last) return static_cast<int>(*rank);
  sim::refuse({.code = "rank_outside_grid",
               .option = "--rank",
               .numbers = fmt::format("rank {}", *rank),
               .rule = fmt::format("the ranks of this layout are {} to {}", layout.first_rank, last),
               .hint = fmt::format("--rank {}", layout.first_rank)});
}

/// Returns the rank whose groups are compared: that of --rank, or that of a dump of one rank.
std::optional<int> compared_rank(const GroupsRequest& request) {
  const std::optional<std::int64_t>& dumped = request.against->rank;
  if (!dumped) return selected_rank(request);
  if (request.rank && *request.rank != *dumped) {
    sim::refuse(
        {.code = "dump_rank",
         .option = "--rank",
         .numbers = fmt::format("rank {}, and the dump has the groups of rank {}", *request.rank, *dumped),
         .rule = "a dump of one rank is held against the groups of this rank",
         .hint = fmt::format("--rank {}", *dumped)});
  }
  GroupsRequest of_dump = request;
  of_dump.rank = dumped;
  return selected_rank(of_dump);
}

}  // namespace

int run_groups(const Call& call) {
  const GroupsRequest request = groups_request(call.line);
  if (request.against) {
    const ComparedGroups ours{request.layout, selected_kinds(request), request.kinds.empty(),
                              compared_rank(request)};
    return show_groups_against(call, ours, *request.against);
  }
  const GroupsView view{request.layout, selected_kinds(request), selected_rank(request)};
  if (asks_for_json(call.line)) {
    write_groups_json(call.output.out, view, last_members(call));
  } else {
    call.output.out << groups_text(view, request.nodes, call.output.colour);
  }
  return kVerified;
}

}  // namespace verify
