#pragma once

/// What every backend refuses of groups that a rank asks for.
///
/// Errors  no_such_group, bad_group, bad_group_name (groups.h).

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/base/site.h"
#include "sim/layout/layout.h"

namespace sim {

[[noreturn]] void refuse_no_group(const Layout& layout, int rank, std::string_view kind);

/// A group that `rank` makes. `runs`: whether a global rank is one of the world's.
void check_new_group(const Layout& layout, int rank, const std::string& name, const std::vector<int>& members,
                     int world_size, const std::function<bool(int)>& runs, const Site& site);

}  // namespace sim
