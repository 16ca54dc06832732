#pragma once

/// Holds the groups of a layout against those that a running job has (verify/requests/group_dump.h).
///
///   equal        the group of the dump has our ranks, in our order
///   other_order  it has our ranks in another order
///   foreign      no group of ours has its ranks, or it is there twice, or no kind has its description
///   missing      the dump does not have a group of ours; in a dump that is partial this is no difference
///
/// Exact   PyTorch sorts the ranks of a group, so ascending ranks are in our order, too, unless the dump is
///         a document of this program. Gloo's twin of a kind is judged by the groups of the kind; it is
///         expected only where the dump has one. A job whose embeddings are not tied sums nothing over embd,
///         so that its first rank alone, and its first and last, are both equal to ours; they are, too, where
///         no model is known. Groups of kinds that are not modelled (sim/layout/README.md)
///         are counted and not judged. The first kMostDifferences differences are kept, and all are counted.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/layout/layout.h"
#include "verify/requests/group_dump.h"

namespace verify {

inline constexpr std::size_t kMostDifferences = 1000;

struct GroupDifference {
  enum class What { missing, foreign, other_order };
  What what;
  std::string kind;         // "" where no kind of the layout has the description
  std::string description;  // as the dump has it; of a group that is missing, Megatron's
  std::vector<int> ranks;   // of the group in the dump, or of ours that is missing
  std::string explanation;  // how the ranks differ
};

/// Returns "missing", "foreign" or "other_order".
const char* difference_name(GroupDifference::What what);

/// The groups of one description.
struct KindComparison {
  std::string kind;
  std::string description;
  std::int64_t groups = 0;  // of ours
  std::int64_t equal = 0, missing = 0, foreign = 0, other_order = 0;
};

struct GroupComparison {
  std::string world;  // how the number of ranks differs; "" where it does not
  std::vector<KindComparison> kinds;
  std::vector<GroupDifference> differences;
  std::int64_t groups = 0;      // of the dump that were judged
  std::int64_t differing = 0;   // groups that differ
  std::int64_t not_judged = 0;  // groups of the dump without a description, or of a kind that is not modelled
  bool is_equal() const { return world.empty() && differing == 0; }
};

/// What is compared: these kinds of the layout, or all of them and every group of the dump; and with a rank
/// only the groups that hold it.
struct ComparedGroups {
  const sim::Layout& layout;
  std::vector<const sim::GroupKind*> kinds;
  bool are_all_kinds = true;
  std::optional<int> rank;
};

GroupComparison compare_groups(const ComparedGroups& ours, const GroupDump& dump);

/// Returns the kind whose groups have Megatron's description, also with Gloo's mark; "" if there is none.
std::string kind_of_description(std::string description);

/// Returns ranks as a list, of which a long one is abbreviated: "[0,1,2,3,4,5,..,63]".
std::string ranks_text(const std::vector<int>& ranks);

}  // namespace verify
