#pragma once

/// One rank's part of one group on NCCL: puts calls in, and waits for them, never for ever.
///
/// Calls   connect() by all members in one order of groups: it makes NCCL's connections, which is a wait of
///         the hosts for each other, and in the exact order finds out whether NCCL's ring is in the order of
///         places. In a group of more than sixteen, a member's first message to one that is no neighbour is
///         such a wait, too. Sends and receives stay here until the rank waits for anything, or calls a
///         collective of their group; then all that have stayed go, each group's in one ncclGroup, so that
///         those that are started together progress together. Collectives go at once.
/// Errors  nccl_failed, nccl_deadline, nccl_dtype (the field), nccl_ring: all with the group, and where there
///         is a call with its rank, place in the program and number.

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

/// What was put in together.
struct NcclFlight {
  std::unique_ptr<NcclEvent> event;  // null: it has not gone yet
};

/// What goes on NCCL from one process.
struct NcclTraffic {
  std::chrono::milliseconds deadline;
  NcclOrder order;
  sim::Device* device;
  std::vector<NcclChannel*> unsent;  // with messages that have stayed, the first one first

  void send_messages();
  /// `what`: who waits, and for what.
  void await(const std::function<NcclState()>& state, const Words& what) const;
};

class NcclChannel {
 public:
  /// `link`: of a group of more than one.
  NcclChannel(NcclTraffic& traffic, const sim::ProcessGroup& group, int place,
              std::unique_ptr<NcclLink> link);

  void connect();
  /// Null where nothing has to be done.
  std::shared_ptr<NcclFlight> put(const sim::Call& call);
  void wait_for(const NcclFlight& flight, const Words& what);
  /// What each member gives, as all have it; by place. `what`: who waits, and for what.
  std::vector<std::vector<std::int32_t>> exchange(const std::vector<std::int32_t>& own, const Words& what);
  /// This rank's link to the members of its color; null for a negative one.
  std::unique_ptr<NcclLink> split(int color, int key, const Words& what);
  void send_messages();
  void close();

  /// As it is named where it fails: rank, number, group, operation, site.
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
  void check_ring();

  NcclTraffic& traffic_;
  const sim::ProcessGroup& group_;
  int place_;
  std::unique_ptr<NcclLink> link_;
  sim::Tensor token_;  // what a barrier adds up
  std::vector<NcclRequest> unsent_;
  Words words_of_unsent_;             // of the first of them
  std::shared_ptr<NcclFlight> next_;  // theirs
};

}  // namespace gpu
