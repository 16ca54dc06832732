#pragma once

/// Checks that every backend makes when a rank asks for an existing group or for a new one.
///
/// Errors  no_such_group, bad_group, bad_group_name (groups.h describes them).

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/base/site.h"
#include "sim/layout/layout.h"

namespace sim {

/// Refuses a rank that asks for a kind of group in which it has none.
[[noreturn]] void refuse_no_group(const Layout& layout, int rank, std::string_view kind);

/// Checks the name and the members of a group that `rank` makes. `runs` says whether a global rank runs in
/// this world.
void require_new_group(const Layout& layout, int rank, const std::string& name,
                       const std::vector<int>& members, int world_size, const std::function<bool(int)>& runs,
                       const Site& site);

}  // namespace sim
