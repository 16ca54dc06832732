#pragma once

/// One rank of a world of virtual ranks at run time.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "sim/comm/groups.h"
#include "sim/comm/recorder.h"
#include "sim/comm/refusal_limit.h"
#include "sim/fibers/context.h"
#include "sim/fibers/fiber_context.h"
#include "sim/tensor/device.h"
#include "sim/world/finding.h"
#include "sim/world/posted_call.h"

namespace sim {

/// A rank that is outside waits for a file descriptor (outside.h): it neither is ready nor waits for a call.
enum class RankStatus { runs, waits, outside, returned, threw, ended_by_world };

class VirtualWorld;
class RankState;

/// Returns a finding about an exception that left a rank's program, or about a rank that was given up, with
/// the last call that the rank made. Its sentence does not name the rank; findings_of_thrown() does that.
Finding thrown(const RankState& state, std::string code, std::string sentence, std::string rule,
               std::string hint);
/// Returns what these ranks threw. Ranks that threw the same are reported together.
std::vector<Finding> findings_of_thrown(const std::vector<const RankState*>& threw);

/// The calls that a rank has posted since it last stopped, in their order.
class Outbox {
 public:
  void add(PostedCall& call) {
    (first_ == nullptr ? first_ : last_->next) = &call;
    last_ = &call;
  }
  /// Empties the outbox. Returns its first call, which leads to the others; null if there is none.
  PostedCall* take() { return std::exchange(first_, nullptr); }
  const PostedCall* first() const { return first_; }

 private:
  PostedCall* first_ = nullptr;
  PostedCall* last_ = nullptr;
};

/// The state of one rank: the context of its program, the call that it waits for, and the calls it has
/// posted. What the world looks at in each round comes first.
class RankState {
 public:
  RankState(VirtualWorld& owner, int global_rank, int slot_in_world);
  /// Records that the program is over because of this finding.
  void fail(Finding finding);
  /// Asks the processor for what will soon be read of the rank: the part of its stack where its latest call
  /// lies, or the calls in its outbox. An address that is no longer in use does no harm.
  void prefetch_stack() const { prefetch_lines(latest_call, -4, 10); }
  void prefetch_call() const { prefetch_lines(outbox.first(), 0, 2); }

  VirtualWorld& world;
  int rank;
  int slot;
  RankStatus status = RankStatus::runs;
  PostedCall* waits_for = nullptr;          // not null while status is waits
  int outside = -1;                         // the file descriptor that an outside rank waits for
  const PostedCall* latest_call = nullptr;  // the call that the rank posted last; it may be long over
  Outbox outbox;
  std::unique_ptr<Context> context;
  FiberContext* fiber = nullptr;  // the context, if it is a fiber
  std::shared_ptr<Device> device;
  std::shared_ptr<Recorder> recorder;
  RefusalLimit refusal_limit;
  std::unique_ptr<Groups> groups;
  std::unique_ptr<Finding> threw;  // the error that its program threw, or why the rank was given up
  bool threw_for_another = false;  // threw says only that another rank has refused (refused_elsewhere.h)
  int refused_calls = 0;           // calls that were refused since the world ended

 private:
  /// Asks for the cache lines from `first` to before `end`, counted from the one at `call`. There need be no
  /// call: the addresses are numbers, which a null pointer has too.
  static void prefetch_lines(const PostedCall* call, int first, int end) {
    constexpr std::intptr_t kLine = 64;
    const auto address = reinterpret_cast<std::intptr_t>(call);
    for (int line = first; line < end; ++line) {
      __builtin_prefetch(reinterpret_cast<const void*>(address + line * kLine));
    }
  }
  /// Gives up the rank, which runs and catches what should end it.
  void give_up(std::string sentence);
};

/// The ranks of a world that run, in ascending order.
using RankStates = std::vector<std::optional<RankState>>;

}  // namespace sim
