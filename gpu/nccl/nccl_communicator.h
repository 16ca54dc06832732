#pragma once

/// A communicator of real processes with a GPU each, over NCCL; and the groups of such a process.
///
/// Calls   the groups of the layout are made at once, by all ranks in the order of nccl_splits.h; those that
///         a program makes, when it does. started calls of different groups go on side by side, those of one
///         group in the order in which they were made. Messages that are started go together, when the rank
///         next waits for anything: nccl_channel.h. A send may be over before its recv.
/// Errors  nccl_failed, nccl_deadline, nccl_dtype, nccl_ring (nccl_channel.h); group_order_mismatch;
///         wrong_rank for a Work that left its rank's program. What members disagree on otherwise, NCCL does
///         not see: most of it ends with nccl_deadline.
/// Exact   with NcclOrder::exact the bits of virtual ranks whose order is nccl_ring: averages are sums that
///         this rank scales.

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

/// What all communicators of a program have in common, on one process.
struct NcclRun {
  NcclTraffic traffic;
  int rank;
  const sim::Layout& layout;
  sim::NodePlacement nodes;
  std::shared_ptr<sim::Device> device;
  std::shared_ptr<sim::Recorder> recorder;
  std::vector<std::shared_ptr<const sim::ProcessGroup>> groups =
      {};                                                   // for call records that outlive the program
  std::vector<std::unique_ptr<NcclChannel>> channels = {};  // of all groups, in the order they were made

  const sim::ProcessGroup& add_group(std::string kind, int index, std::vector<int> members);
  /// Of a new group, connected.
  NcclChannel& add_channel(const sim::ProcessGroup& group, std::unique_ptr<NcclLink> link);
  /// By all ranks: nobody closes what others still use.
  void meet_at_end();
  /// All links, the latest first.
  void close();
};

class NcclCommunicator : public sim::Communicator {
  using Call = sim::Call;
  using Pending = sim::Pending;

 public:
  NcclCommunicator(NcclRun& run, NcclChannel& channel);

  /// Of the world's communicator: a group that all ranks make together; null for a rank that is no member.
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
  /// `world`: null in a world of one.
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
