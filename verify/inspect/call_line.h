#pragma once

/// The line of the user's program that made a recorded call.

#include <string>
#include <string_view>
#include <vector>

#include "verify/inspect/holding_call.h"
#include "verify/inspect/suspects.h"
#include "verify/recordings/recording.h"

namespace verify {

/// Returns the frames of a call that are not PyTorch's own, the innermost first; all of them where they are
/// all PyTorch's, and none where the dump has no stack. They are text of the dump, and not yet printable.
std::vector<std::string_view> program_frames(const Recording& recording, const RecordedCall& call);

/// Returns the first of these frames, in printable text: "forward (/home/me/train.py:41)"; "" if there is
/// none.
std::string line_of(const Recording& recording, const RecordedCall& call);
/// Returns the line of a call that holds ranks, of the first rank that has recorded it.
std::string line_of(const Job& job, const HoldingCall& call);

/// Returns the call that a rank made last, where it is suspected because it made no other one; else null.
const RecordedCall* last_call_of(const Job& job, const Suspect& suspect);

}  // namespace verify
