#pragma once

/// A communicator between processes with a GPU each, over NCCL, and the groups of such a process.
///
/// Calls   All ranks make the groups of the layout at once, in the order of nccl_splits.h. Groups that a
///         program makes are made when it asks for them. Started calls of different groups progress
///         independently; those of one group run in the order in which they were made. Started messages are
///         issued together, when the rank next waits for anything (nccl_channel.h). A send may be over before
///         its recv.
/// Errors  nccl_failed, nccl_deadline, nccl_dtype, nccl_ring (nccl_channel.h); group_order_mismatch;
///         wrong_rank for a Work that left its rank's program. NCCL does not see other disagreements between
///         members: most of them end with nccl_deadline.
/// Exact   With NcclOrder::exact, results have the bits of virtual ranks whose order is nccl_ring. Averages
///         are sums that this rank scales.

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "gpu/nccl/nccl_channel.h"
#include "sim/comm/groups.h"
#include "sim/layout/layout.h"
#include "sim/layout/node_placement.h"

namespace gpu {

/// The state that all communicators of a program share, on one process.
struct NcclRun {
  NcclTraffic traffic;
  int rank;
  const sim::Layout& layout;
  sim::NodePlacement nodes;
  std::shared_ptr<sim::Device> device;
  std::shared_ptr<sim::Recorder> recorder;
  /// The groups are kept for call records, which outlive the program.
  std::vector<std::shared_ptr<const sim::ProcessGroup>> groups = {};
  std::vector<std::unique_ptr<NcclChannel>> channels = {};  // of all groups, in the order they were made

  const sim::ProcessGroup& add_group(std::string kind, int index, std::vector<int> members);
  /// Makes the channel of a new group, and connects it.
  NcclChannel& add_channel(const sim::ProcessGroup& group, std::unique_ptr<NcclLink> link);
  /// Waits for all ranks to reach the end of the program, so that no rank closes links that others still use.
  void meet_at_end();
  /// Closes all links, the latest first.
  void close();
};

class NcclCommunicator : public sim::Communicator {
  using Call = sim::Call;
  using Pending = sim::Pending;

 public:
  NcclCommunicator(NcclRun& run, NcclChannel& channel);

  /// Makes a group; all ranks call it together, on the world's communicator. Returns null on a rank that is
  /// not a member.
  std::unique_ptr<NcclCommunicator> new_group(std::string name, const std::vector<int>& members,
                                              sim::Site site);

 private:
  std::unique_ptr<Pending> do_call(Call&& call) override;
  std::unique_ptr<Communicator> do_split(Call&& call) override;

  NcclRun& run_;
  NcclChannel& channel_;
};

class NcclGroups : public sim::Groups {
 public:
  /// `world` is null in a world of one rank.
  NcclGroups(NcclRun& run, std::unique_ptr<NcclLink> world);

  sim::Communicator& world() override { return *world_; }
  sim::Communicator& get(std::string_view kind) override;
  sim::Communicator* find(std::string_view kind) override;
  sim::Communicator* new_group(std::string name, const std::vector<int>& members, sim::Site site) override;

 private:
  NcclRun& run_;
  std::unique_ptr<NcclCommunicator> world_;
  std::map<std::string, std::unique_ptr<NcclCommunicator>, std::less<>> by_kind_;
  std::vector<std::unique_ptr<NcclCommunicator>> made_;
};

}  // namespace gpu
