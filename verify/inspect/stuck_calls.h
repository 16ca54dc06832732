#pragma once

/// Calls to which every member has come and that do not end. Where the recorder knew which devices have begun
/// one, the others are named.
///
/// Several of them are those of a job that ran while the dumps were written, or of a network that stopped:
/// then nobody is named. A call holds none of its ranks where one of these waits in a send, too; where that
/// is so of all calls, those who have not received are named. Members are named instead that have completed
/// such a call, where dumps of active calls alone do not tell which it was.

#include <vector>

#include "verify/inspect/suspects.h"

namespace verify {

// Messages that do not end although both of their ends are at them: a send and its recv are pending, and
// nothing that is pending before them holds either rank. A device or a link has stopped, or they are under
// way.
//
// Exact   A rank is at its first pending message, and at all messages of its batch; a batch is stuck where
//         every message of it is. Halves have one number where both dumps tell it. Ranks
//         whose rings may have lost a pending call, and ranks whose devices are behind, are left out.

/// Names the ranks of such messages.
void add_stuck_messages(const Evidence& know, Suspects& suspects);

/// Whether a call to which all have come is a collective that can end: the dump of every member is there and
/// not cut, and nothing else holds it.
bool can_end(const Evidence& know, const HoldingCall& call);

/// Judges the calls to which all have come.
void add_stuck_calls(const Evidence& know, const std::vector<const HoldingCall*>& stuck, Suspects& suspects);

}  // namespace verify
