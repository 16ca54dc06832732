#pragma once

/// The layout of a job, inferred from its groups: the sizes follow from Megatron's descriptions and the
/// numbers of members, and the order from the members. The groups of that layout, as sim/layout enumerates
/// them, are then held against the job's groups (group_comparison.h).
///
/// Exact   An axis whose kind has no group has the smallest size that agrees with the others: cp
///         and ep 1, etp that of tp or 1. The order is one of Megatron's two, or another one where it
///         explains more groups. It is a guess, and its words say so.

#include <cstdint>
#include <optional>
#include <string>

#include "sim/layout/layout.h"
#include "verify/checks/group_comparison.h"
#include "verify/output/json.h"
#include "verify/requests/group_dump.h"

namespace verify {

struct JudgedLayout {
  sim::Layout layout;
  bool is_inferred = true;     // not given by the user
  GroupComparison comparison;  // of the job's groups with those of the layout
};

/// Returns the layout that explains most groups; nothing where no group has a description of Megatron's, or
/// no sizes agree with the groups.
std::optional<JudgedLayout> inferred_layout(const GroupDump& job, std::int64_t world_size);

/// Says the sizes and the order: "16 ranks, tp 2, cp 1, ...".
std::string sizes_text(const sim::Layout& layout);
/// inferred; world_size; order; the sizes; groups_judged, groups_differing and groups_not_judged.
Json judged_layout_json(const JudgedLayout& judged);

/// Holds the groups of a job against a layout that the user gives.
JudgedLayout judged_layout(const GroupDump& job, sim::Layout layout);

}  // namespace verify
