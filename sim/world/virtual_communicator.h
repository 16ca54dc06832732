#pragma once

/// A communicator of virtual ranks: every call is posted to the world, which matches and completes it.

#include <memory>

#include "sim/comm/communicator.h"
#include "sim/world/virtual_world.h"

namespace sim {

class VirtualCommunicator : public Communicator {
 public:
  VirtualCommunicator(RankState& rank, GroupState& group, int place);

  /// Of the world's communicator: a group that all ranks make together; null for a rank that is no member.
  std::unique_ptr<VirtualCommunicator> new_group(std::string name, const std::vector<int>& members,
                                                 Site site);

 private:
  std::unique_ptr<Pending> do_call(Call&& call) override;
  std::unique_ptr<Communicator> do_split(Call&& call) override;

  std::unique_ptr<PostedCall> post(Call&& call);

  RankState& rank_;
  GroupState& group_;
};

/// The groups of a virtual rank, made when first asked for.
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
