#pragma once

/// One rank of a world of virtual ranks at run time.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "sim/comm/groups.h"
#include "sim/comm/recorder.h"
#include "sim/comm/refusal_limit.h"
#include "sim/fibers/context.h"
#include "sim/tensor/device.h"
#include "sim/world/finding.h"
#include "sim/world/posted_call.h"

namespace sim {

enum class RankStatus { runs, waits, returned, threw, ended_by_world };

class VirtualWorld;
class RankState;

/// Returns a finding about an exception that left a rank's program, or about a rank that was given up, with
/// the last call that the rank made.
Finding thrown(const RankState& state, std::string code, std::string sentence, std::string rule,
               std::string hint);

/// The state of one rank: the context of its program, the call that it waits for, and the calls it has
/// posted.
class RankState {
 public:
  RankState(VirtualWorld& owner, int global_rank);
  /// Records that the program is over because of this finding.
  void fail(Finding finding);

  VirtualWorld& world;
  int rank;
  RankStatus status = RankStatus::runs;
  std::shared_ptr<Recorder> recorder;
  RefusalLimit refusal_limit;
  std::shared_ptr<Device> device;
  std::unique_ptr<Groups> groups;
  std::unique_ptr<Context> context;
  std::vector<PostedCall*> outbox;  // calls posted since the rank last stopped
  PostedCall* waits_for = nullptr;  // not null while status is waits
  std::unique_ptr<Finding> threw;   // the error that its program threw, or why the rank was given up
  bool threw_for_another = false;   // threw says only that another rank has refused (refused_elsewhere.h)
  int refused_calls = 0;            // calls that were refused since the world ended

 private:
  /// Gives up the rank, which runs and catches what should end it.
  void give_up(std::string sentence);
};

}  // namespace sim
