#pragma once

/// How `groups` shows a layout: as the JSON document that programs parse, and as tables for eyes.
///
/// With a rank, only the groups that hold it.

#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "sim/layout/layout.h"
#include "sim/layout/node_placement.h"

namespace verify {

struct GroupsView {
  const sim::Layout& layout;
  std::vector<const sim::GroupKind*> kinds;  // those to show, in creation order
  std::optional<int> rank;
};

/// Streams the lists group by group: a world of a million ranks never exists as one document in memory.
void write_groups_json(std::ostream& out, const GroupsView& view);

/// A table of kinds (of one rank's groups), and for small worlds the ranks node by node; coloured on request.
std::string groups_text(const GroupsView& view, const sim::NodePlacement& nodes, bool colour);

}  // namespace verify
