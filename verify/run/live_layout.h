#pragma once

/// The layout of a program over Megatron, from the groups that it has made, and those groups held against the
/// ones that sim/layout enumerates for it (verify/checks/inferred_layout.h).
///
/// Exact   groups without a description of Megatron's are the program's own, and are not judged. Nor are
///         those of embeddings, because their members depend on the model. Megatron makes some kinds only for
///         some layouts, so that a kind without groups is no difference.

#include <optional>
#include <string>
#include <vector>

#include "sim/guest/guest_program.h"
#include "verify/checks/inferred_layout.h"

namespace verify {

/// Returns nothing where no group is Megatron's.
std::optional<JudgedLayout> live_layout(const std::vector<sim::GuestGroup>& groups, int ranks,
                                        std::optional<sim::Layout> given);

/// Returns a sentence for each group that the layout does not have.
std::vector<std::string> sentences_of_groups(const JudgedLayout& judged);
/// Returns the first of them as lines, and how many more there are.
std::string warnings_of_groups(const JudgedLayout& judged);
/// Says what the layout is, and which groups differ from its own.
std::string live_layout_text(const JudgedLayout& judged);

}  // namespace verify
