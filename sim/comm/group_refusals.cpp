#include "sim/comm/group_refusals.h"

#include <algorithm>
#include <fmt/format.h>

#include "sim/base/error.h"
#include "sim/comm/process_group.h"

namespace sim {

void refuse_no_group(const Layout& layout, int rank, std::string_view kind) {
  const bool known = layout.find(kind) != nullptr;
  refuse({.code = "no_such_group",
          .option = fmt::format("rank {}, group '{}'", rank, kind),
          .numbers = known ? "this rank is in no group of this kind" : "the layout has no group of this kind",
          .rule = "a rank asks only for groups of the layout in which it is a member",
          .hint = "Groups::find(), which returns null; shardproof groups --rank lists the groups of a rank"});
}

void require_new_group(const Layout& layout, int rank, const std::string& name,
                       const std::vector<int>& members, int world_size, const std::function<bool(int)>& runs,
                       const Site& site) {
  std::vector<int> sorted = members;
  std::sort(sorted.begin(), sorted.end());
  const bool repeated = std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end();
  const bool outside = std::any_of(members.begin(), members.end(), [&](int member) { return !runs(member); });
  const std::string where = fmt::format("rank {}, new_group '{}' at {}", rank, name, text_of(site));
  // Two groups with the same name would be merged in reports, in ledgers and in the world's table of groups.
  const bool taken = name == "world" || layout.find(name) != nullptr;
  if (name.empty() || taken || name.find_first_of("[]") != std::string::npos) {
    refuse({.code = "bad_group_name",
            .option = where,
            .numbers = taken ? "a group of the layout has this name" : "the name is empty, or has brackets",
            .rule = "a new group has a name of its own, without [ and ]",
            .hint = taken ? fmt::format("'my_{}'", name) : "a name of letters and digits"});
  }
  if (members.empty() || repeated || outside) {
    refuse({.code = "bad_group",
            .option = where,
            .numbers = fmt::format("{} of a world of {}", text_of_ranks(members), world_size),
            .rule = "a group has at least one member, and members are ranks that run, each listed once",
            .hint = "a list of global ranks without repetition"});
  }
}

}  // namespace sim
