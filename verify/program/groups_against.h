#pragma once

/// Shows how the groups of a layout and those of a running job differ: the answer, a table of kinds, and the
/// differences; or one JSON document (README.md).

#include "verify/checks/group_comparison.h"
#include "verify/program/commands.h"
#include "verify/requests/group_dump.h"

namespace verify {

/// Returns kVerified where nothing differs, and else kFalsified.
int show_groups_against(const Call& call, const ComparedGroups& ours, const GroupDump& dump);

}  // namespace verify
