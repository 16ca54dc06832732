#pragma once

/// The rules that choose suspects (suspects.h) among ranks that are held, each in a source of its own.

#include <cstddef>
#include <vector>

#include "verify/inspect/suspects.h"

namespace verify {

// calls_ahead.cpp: ranks that have gone on where the others ended. They wait in a collective, and those that
// have not come to it have no pending call and have made exactly the calls before it of their groups of this
// kind and stage: some ranks have one call, batch or step more. Their hosts may have issued further calls
// behind it, and others may wait for them.
//
// Where more than two thirds of all ranks have no pending call, the rest is ahead too if most of the ranks
// that it waits for, and of those of its pipeline stage at its place of other groups of the kind, have made
// exactly the calls before: hosts of most ranks do not stop at once, but may wait in what is not recorded,
// as in gloo. Where this is so of one more rank than not, those that are awaited are named, too.
//
// Exact   Such dumps are also those of ranks that all ended too early at one place. The fewer ranks are
//         named: they are fewer than half of all, and in no group more than those that have not made the
//         call; and at least two others have made the same number of calls. Nobody is named where a rank
//         has no whole dump, where a message alone waits for such a rank, or where a ring has lost a
//         pending call.

/// Names the ranks that are ahead in place of the suspects; changes nothing where this does not explain all
/// ranks that wait.
void prefer_ranks_ahead(const Evidence& know, Suspects& suspects);

// circle_suspects.cpp: ranks of which each waits for the next one. The first of these that is there is named:
// the ranks of a pipeline stage that has begun another number of microbatches than the other stages; a rank
// that is held by a message between odd places, while another one waits for a message of it; ranks that have
// not come to a collective in which more ranks wait for them, and are ahead of the ranks at their place of
// other groups of the kind that holds them; ranks of the shortest circle that wait in a call for the larger
// part of its members, which are all held in one way, and for which others wait, and mostly for nobody else,
// in a collective; ranks that depart from the calls of their stage (odd_programs.h); the shortest circle, and
// where it is of two ranks, their counterparts in other groups that hold each other in the same calls.

/// Judges the components of the graph that are circles. Nothing is said of one with a rank that may have lost
/// the call that holds it.
void add_circle_suspects(const Evidence& know, const std::vector<std::vector<std::size_t>>& components,
                         Suspects& suspects);

// stuck_calls.cpp: messages that do not end although both of their ends are at them, as a send and its recv
// are pending, and nothing that is pending before them holds either rank. A device or a link has stopped, or
// they are under way.
//
// Exact   A rank is at its first pending message, and at all messages of its batch; a batch is stuck where
//         every message of it is. Halves have one number where both dumps tell it. Ranks whose rings may have
//         lost a pending call, and ranks whose devices are behind, are left out.

/// Names the ranks of such messages.
void add_stuck_messages(const Evidence& know, Suspects& suspects);

/// Whether a call to which all have come is a collective that can end: the dump of every member is there and
/// not cut, and nothing else holds it.
bool can_end(const Evidence& know, const HoldingCall& call);

/// Judges the calls to which all have come. Where the recorder knew which devices have begun one, the others
/// are named. Several of them are those of a job that ran while the dumps were written, or of a network that
/// stopped: then nobody is named. A call holds none of its ranks where one of these waits in a send, too;
/// where that is so of all calls, those who have not received are named. Members are named instead that have
/// completed such a call, where dumps of active calls alone do not tell which it was.
void add_stuck_calls(const Evidence& know, const std::vector<const HoldingCall*>& stuck, Suspects& suspects);

}  // namespace verify
