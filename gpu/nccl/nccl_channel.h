#pragma once

/// One rank's access to one group on NCCL. It issues calls and waits for them, with a deadline for every
/// wait.
///
/// Calls   All members call connect() for their groups in the same order. It makes NCCL's connections, for
///         which the hosts wait for each other; in the exact order it also finds out whether NCCL's ring
///         goes through the places in order. In a group of more than sixteen, a member's first message to a
///         member that is not its neighbour is such a wait too. Sends and receives are held back until the
///         rank waits for anything, or calls a collective of their group. Then all messages that are held
///         back are issued, those of a group in one ncclGroup, so that messages that are started together
///         progress together. Collectives are issued at once.
/// Errors  nccl_failed, nccl_deadline, nccl_dtype (the field), nccl_ring. All name the group, and, if a call
///         failed, the rank, the call's place in the program and its number.

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "gpu/nccl/nccl_library.h"
#include "gpu/nccl/nccl_options.h"
#include "sim/comm/process_group.h"

namespace gpu {

class NcclChannel;
using Words = std::function<std::string()>;

/// Requests that are issued together.
struct NcclFlight {
  std::unique_ptr<NcclEvent> event;  // null while the requests are held back
};

/// The state that all channels of a process share.
struct NcclTraffic {
  std::chrono::milliseconds deadline;
  NcclOrder order;
  sim::Device* device;
  std::vector<NcclChannel*> unsent;  // channels that hold back messages, in the order of their first message

  /// Issues all messages that are held back.
  void send_messages();
  /// Waits until `state` is ready, and refuses when it has failed or the deadline has passed. `what` says who
  /// waits, and for what.
  void await(const std::function<NcclState()>& state, const Words& what) const;
};

class NcclChannel {
 public:
  /// `link` is null for a group of one.
  NcclChannel(NcclTraffic& traffic, const sim::ProcessGroup& group, int place,
              std::unique_ptr<NcclLink> link);

  void connect();
  /// Issues a call, or holds it back if it is a message. Returns null if there is nothing to do.
  std::shared_ptr<NcclFlight> put(const sim::Call& call);
  void wait_for(const NcclFlight& flight, const Words& what);
  /// Gathers the numbers that each member gives, on all members, by place. `what` says who waits, and for
  /// what.
  std::vector<std::vector<std::int32_t>> exchange(const std::vector<std::int32_t>& own, const Words& what);
  /// Returns this rank's link to the members of its color, or null for a negative color.
  std::unique_ptr<NcclLink> split(int color, int key, const Words& what);
  void send_messages();
  void close();

  /// Returns the name of a call in error messages: rank, number, group, operation, site.
  std::string text(const sim::Call& call) const;
  std::string text(std::string_view what) const;
  int place() const { return place_; }
  const sim::ProcessGroup& group() const { return group_; }

 private:
  std::vector<NcclRequest> requests_of(const sim::Call& call) const;
  void await_link(const Words& what) const;
  std::shared_ptr<NcclFlight> put(sim::Call call, const Words& what);
  void go(NcclFlight& flight, const std::vector<NcclRequest>& requests, const Words& what);
  void run(const sim::Call& call, const Words& what);
  void meet_members();
  void require_ring();

  NcclTraffic& traffic_;
  const sim::ProcessGroup& group_;
  int place_;
  std::unique_ptr<NcclLink> link_;
  sim::Tensor token_;  // [1] i32, the operand of barriers
  std::vector<NcclRequest> unsent_;
  Words words_of_unsent_;             // the name of the first of them in error messages
  std::shared_ptr<NcclFlight> next_;  // the flight of unsent_
};

}  // namespace gpu
