#pragma once

/// A job whose ranks run ahead of their devices, as with NCCL, played until nothing moves: which calls every
/// rank issued, and which of them ended. Faults are planted in it. It knows nothing of how a hang is
/// explained, and shares no rule with verify/inspect.
///
///   host     A rank takes the steps of its program in order. A step may wait until its call has ended.
///   device   Each group has a stream of its own on each rank, and so has each direction between two members.
///            A call begins when the call before it in its stream has ended, and all calls for which the
///            compute stream waited when it was issued.
///   call     A collective ends on all members once it has begun on all of them and they agree about it; a
///            message once both halves have begun. Where sends are eager, a send ends by itself.
///
/// Shapes  Programs are lists by rank. A step without an operation makes the compute stream wait for all
///         calls of its group.
/// Exact   The state in which nothing moves does not depend on the order in which ranks are played.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "verify/recordings/dump_writer.h"

namespace test {

struct StreamedGroup {
  std::string description;
  std::vector<int> ranks;
};

struct StreamedStep {
  std::size_t group = 0;  // index into the job's groups
  std::string operation;  // "all_reduce", "send 0->1"; "": joins the group's calls
  std::int64_t elements = 64;
  std::string dtype = "BFloat16";
  bool is_async = false;    // the compute stream goes on
  bool holds_host = false;  // the host goes on when the call has ended
};

struct StreamedJob {
  std::vector<StreamedGroup> groups;
  std::vector<std::vector<StreamedStep>> programs;
  bool has_eager_sends = false;
  // ---- faults, by rank; -1: none
  std::vector<int> host_stops_at;          // the first step that is not taken
  std::vector<int> device_stops_at;        // the first call that never begins
  std::vector<int> device_is_silent_from;  // the first call whose end is not seen there
};

/// A training of tp x dp x pp ranks with experts over `ep` ranks of a stage, in the order of calls of
/// Megatron's 1F1B schedule.
struct TrainingSizes {
  int tp = 1, dp = 1, pp = 1, ep = 1, microbatches = 1, steps = 1;
  int ranks() const { return tp * dp * pp; }
};
StreamedJob streamed_training(const TrainingSizes& sizes, bool sends_are_async, bool experts_hold_host);

struct StreamedHang {
  std::vector<std::vector<std::size_t>> issued;  // by rank: the steps that are calls
  std::vector<std::vector<bool>> is_ended;       // by rank and issued call
  std::vector<std::vector<bool>> is_begun;
  bool all_ended = false;
  /// Whether another rank waits for a rank: a call that the rank has not issued is pending on a member.
  std::vector<bool> is_missed;
};
StreamedHang hang_of(const StreamedJob& job);

/// What of a hang the dumps show.
struct DumpedView {
  bool has_timing = false;  // calls that have begun are "started"
  bool is_active_only = false;
  std::int64_t most_calls = 1'000'000;
};
std::vector<verify::RankDump> dumps_of(const StreamedJob& job, const StreamedHang& hang,
                                       const DumpedView& view);

}  // namespace test
