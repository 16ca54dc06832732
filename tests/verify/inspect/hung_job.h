#pragma once

/// A job of virtual ranks that hangs, played call by call: what every rank's flight recorder has of it, and
/// which ranks kept the others waiting. It knows nothing of how a hang is explained.
///
///   host    A rank issues the calls of its program in order. It may be ahead of its device by `run_ahead`
///           calls: with 1 every call blocks, as in gloo.
///   device  A call ends on all of its members once it is the oldest open call of each of them.

#include <cstddef>
#include <string>
#include <vector>

#include "tests/verify/recordings/test_dump.h"
#include "verify/recordings/recording_reader.h"

namespace test {

/// A call of a rank's program. A message has one peer, and the positions of both in the name of its
/// operation.
struct ProgramCall {
  std::size_t group = 0;  // index into HungJob::groups
  std::string operation;  // "all_reduce", "send 0->1"
  std::int64_t elements = 4;
};

struct HungJob {
  std::vector<DumpedTestGroup> groups;
  std::vector<std::vector<ProgramCall>> programs;  // by rank
  std::vector<int> stops_at;                       // by rank, the first call that it never issues; -1: none
  int run_ahead = 1;
};

/// Where a job is when nothing moves any more.
struct Hang {
  std::vector<std::size_t> issued;              // by rank
  std::vector<std::vector<bool>> is_completed;  // by rank and call
  /// Ranks that stopped with nothing open, for which another rank waits.
  std::vector<int> idle_and_awaited;
  bool all_ended = false;  // every call of every program has completed
};

Hang hang_of(const HungJob& job);

/// A grid of tp x dp x pp ranks that trains: the programs of `steps` microbatches, each forward and backward
/// through all stages, with sums over tp, dp and all ranks.
HungJob training(int tp, int dp, int pp, int steps);

/// What the flight recorders have.
std::vector<TestDump> dumps_of(const HungJob& job, const Hang& hang);

/// The dumps as the program reads them, from their JSON or from their pickles.
verify::Recordings recordings_of(const std::vector<TestDump>& dumps, bool as_pickle = false);

}  // namespace test
