#pragma once

/// A communicator of virtual ranks. It posts every call to the world, which matches the calls and completes
/// them.

#include <memory>

#include "sim/comm/communicator.h"
#include "sim/world/virtual_world.h"

namespace sim {

class VirtualCommunicator : public Communicator {
 public:
  VirtualCommunicator(RankState& rank, GroupState& group, int place);

  /// Makes a new group. It may be called on the world's communicator only, and by all ranks. Returns null on
  /// ranks that are not members of the new group.
  std::unique_ptr<VirtualCommunicator> new_group(std::string name, const std::vector<int>& members,
                                                 Site site);

 private:
  std::unique_ptr<Pending> do_call(Call&& call) override;
  void do_blocking_call(Call& call) override;
  std::unique_ptr<Communicator> do_split(Call&& call) override;
  /// Where work is counted, multiplying is work of the rank that asks for it, and not of the call.
  bool scales_inputs() const override;

  void require_running(const Call& call) const {
    if (is_partial_) require_members_that_run(call);
  }
  void require_members_that_run(const Call& call) const;
  /// Makes a call that makes a group. Returns this rank's communicator of it; null if it is not a member.
  std::unique_ptr<VirtualCommunicator> made_by(Call& call);

  RankState& rank_;
  GroupState& group_;
  bool is_partial_;  // not all members of the group run
};

/// The groups of a virtual rank. A group of the layout is made when it is first asked for.
class VirtualGroups : public Groups {
 public:
  explicit VirtualGroups(RankState& rank);
  Communicator& world() override { return world_; }
  Communicator& get(std::string_view kind) override;
  Communicator* find(std::string_view kind) override;
  Communicator* new_group(std::string name, const std::vector<int>& members, Site site) override;

 private:
  RankState& rank_;
  VirtualCommunicator world_;
  std::map<std::string, std::unique_ptr<VirtualCommunicator>, std::less<>> by_kind_;
  std::vector<std::unique_ptr<VirtualCommunicator>> made_;
};

}  // namespace sim
