#pragma once

/// Says which results of a wrong run are zero, not used, or come too late: on all ranks, in one layer, or on
/// one rank.
///
/// Exact   That is so with other seeds and at larger sizes, too. The experiment does not tell a result that
///         is zero from one that nobody uses, nor whether a right run has it, too.

#include <string>

#include "verify/explain/changed_sites.h"

namespace verify {

/// Each returns a phrase, or "" where nothing can be said. All sites have been changed.
std::string text_of_zero_kernels(ChangedSites& changes);
std::string text_of_unused(ChangedSites& changes);
/// Sites that give no number already: one more, or an element that is not written, changes nothing.
std::string text_of_hidden(ChangedSites& changes);
/// The calls of one layer alone may be wrong, where those of a site are made in several.
std::string text_of_one_layer(ChangedSites& changes);
/// The result of a call may be unused, or that of a kernel zero, on one rank alone.
std::string text_of_one_rank(ChangedSites& changes);

}  // namespace verify
