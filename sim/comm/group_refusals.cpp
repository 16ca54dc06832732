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
          .numbers = known ? "this rank is in no group of the kind" : "the layout has no such kind",
          .rule = "a rank asks for groups of the layout that it is in",
          .hint = "Groups::find, which gives null; shardproof groups --rank shows them"});
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
            .numbers = taken ? "a group of the layout has this name" : "no name, or one with brackets",
            .rule = "a new group has a name of its own, without [ and ]",
            .hint = taken ? fmt::format("'my_{}'", name) : "a word"});
  }
  if (members.empty() || repeated || outside) {
    refuse({.code = "bad_group",
            .option = where,
            .numbers = fmt::format("{} of a world of {}", text_of_ranks(members), world_size),
            .rule = "members are ranks that run, each once, and at least one",
            .hint = "global ranks"});
  }
}

}  // namespace sim
