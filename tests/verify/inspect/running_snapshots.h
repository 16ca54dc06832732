#pragma once

/// Snapshots of a job that runs: its ranks write their dumps at different moments. Every call has a time at
/// which each rank issued it, and one at which it ended, so nobody is at fault in any of these dumps.
///
///   nccl   Hosts run ahead of devices (streamed_job.h), and a rank sees the end of a call some time later.
///   gloo   A rank waits for each call, but for a few buckets of a step. Its recorder has no state but
///          "retired", no messages, and lists no groups.
///
/// Exact   The same seed has the same snapshots. Dumps that are all written at one instant are not among them:
///         those of a job that runs may then be those of one that hangs.

#include <cstdint>

#include "tests/verify/inspect/streamed_job.h"
#include "verify/recordings/recording_reader.h"

namespace test {

verify::Recordings running_nccl_job(std::uint32_t seed);
verify::Recordings running_gloo_job(std::uint32_t seed);

}  // namespace test
