#pragma once

/// The two forms in which the command `groups` shows a layout: a JSON document for programs, and tables for
/// people. If a rank is given, only the groups that contain it are shown.

#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "sim/layout/layout.h"
#include "sim/layout/node_placement.h"

namespace verify {

struct GroupsView {
  const sim::Layout& layout;
  std::vector<const sim::GroupKind*> kinds;  // the kinds to show, in creation order
  std::optional<int> rank;
};

/// Writes the lists group by group, so that a world of a million ranks is never one document in memory.
/// `last_members` is the text of further members: ",\"from\":{...}".
void write_groups_json(std::ostream& out, const GroupsView& view, const std::string& last_members);

/// Returns a table of one rank's groups; or a table of the kinds, and for small worlds the ranks node by
/// node, in colours if `colour` is true. The warnings of the layout follow.
std::string groups_text(const GroupsView& view, const sim::NodePlacement& nodes, bool colour);

}  // namespace verify
