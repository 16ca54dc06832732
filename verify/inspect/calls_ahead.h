#pragma once

/// Ranks that have gone on where the others ended: they wait in a collective, and those that have not come to
/// it have no pending call and have made exactly the calls before it of their groups of this kind and stage.
/// So it is where some ranks have one call, batch or step more. Their hosts may have issued further calls
/// behind it, and others may wait for them.
///
/// Where more than two thirds of all ranks have no pending call, the rest is ahead too if most of the ranks
/// that it waits for, and of those of its pipeline stage at its place of other groups of the kind, have made
/// exactly the calls before: hosts of most ranks do not stop at once, but may wait in what is not recorded,
/// as in gloo. Where this is so of one more rank than not, those that are awaited are named, too.
///
/// Exact   Such dumps are also those of ranks that all ended too early at one place. The fewer ranks are
///         named: they are fewer than half of all, and in no group more than those that have not made the
///         call; and at least two others have made the same number of calls. Nobody is named where a rank
///         has no whole dump, where a message alone waits for such a rank, or where a ring has lost a
///         pending call.

#include "verify/inspect/suspects.h"

namespace verify {

/// Names the ranks that are ahead in place of the suspects; changes nothing where this does not explain all
/// ranks that wait.
void prefer_ranks_ahead(const Evidence& know, Suspects& suspects);

}  // namespace verify
