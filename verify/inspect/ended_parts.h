#pragma once

/// The parts of coalesced calls that have ended, in dumps of active calls alone.
///
/// A batch of messages, or a coalesced collective, has an entry for each part and one more, "nccl:coalesced",
/// that ends it and has its state. The recorder never learns that a part has ended. A dump of active calls
/// leaves out the entry that ends a batch once the batch has completed, and keeps the parts, which then look
/// pending.
///
/// The last batch of a file that was cut may have an end in the part that is lost. It is left out, too, where
/// earlier batches of the file have ends.
///
/// Shapes  A part that is still pending has the state of its batch, and is_part (recording.h).
/// Exact   A call is taken for the part of a batch that has ended where its dump has no end of it, and where
///         calls of its group, by description and kind, are known as parts: another one is a part of a
///         pending batch, or two neighbours have one number, as those of a batch have. So a job that sends
///         some messages of a group alone and others in batches is not read right.
/// Source  PyTorch, ProcessGroupNCCL::endCoalescing and FlightRecorder::dump_entries, version 2.9.

#include <vector>

#include "verify/recordings/recording.h"

namespace verify {

/// Removes these parts from all recordings of a job, unless one of them has completed calls, and the last
/// batches of files that were cut.
void leave_out_ended_parts(std::vector<Recording>& recordings);

}  // namespace verify
