#include "sim/world/virtual_communicator.h"

#include <algorithm>
#include <cstddef>
#include <fmt/format.h>
#include <utility>

#include "sim/base/check.h"
#include "sim/base/error.h"
#include "sim/comm/group_refusals.h"

namespace sim {

VirtualCommunicator::VirtualCommunicator(RankState& rank, GroupState& group, int place)
    : Communicator(group.group, place, *rank.device, rank.recorder, CallTensors::lent),
      rank_(rank),
      group_(group),
      is_partial_(group.is_partial()) {}

/// Refuses a call that depends on members that do not run. In a world of shapes the others stand for them
/// where all members do the same: in collectives without places, in sums of whole numbers, which are then
/// sums over the members that run, and in broadcasts of whole numbers whose root runs.
void VirtualCommunicator::require_members_that_run(const Call& call) const {
  const bool is_number = call.dtype == DType::i32 && moves_data(call.operation);
  const bool root_runs = call.operation == Operation::broadcast &&
                         std::find(group_.running.begin(), group_.running.end(),
                                   group_.group.rank_at(call.root)) != group_.running.end();
  const bool is_the_same_for_all =
      is_number ? call.operation == Operation::all_reduce || root_runs
                : has_reduce_op(call.operation) || call.operation == Operation::all_gather ||
                      call.operation == Operation::broadcast || call.operation == Operation::barrier;
  if (is_the_same_for_all) return;
  refuse({.code = "group_not_present",
          .option = describe(call),
          .numbers = fmt::format("{} of {} members run", group_.running.size(), group_.group.size()),
          .rule = "members that do not run are folded into others only where all of them do the same",
          .hint = "add all members of the group to WorldSpec::ranks"});
}

std::unique_ptr<Pending> VirtualCommunicator::do_call(Call&& call) {
  require_running(call);
  auto started = std::make_unique<StartedCall>(rank_, group_, rank(), std::move(call));
  rank_.world.post(rank_, started->posted());
  return started;
}

bool VirtualCommunicator::scales_inputs() const { return rank_.device->work() == nullptr; }

void VirtualCommunicator::do_blocking_call(Call& call) {
  require_running(call);
  PostedCall posted(rank_, group_, rank(), call);
  rank_.world.run_call(rank_, posted);
}

std::unique_ptr<VirtualCommunicator> VirtualCommunicator::made_by(Call& call) {
  require_running(call);
  PostedCall posted(rank_, group_, rank(), call);
  rank_.world.run_call(rank_, posted);
  if (posted.made == nullptr) return nullptr;
  return std::make_unique<VirtualCommunicator>(rank_, *posted.made, posted.made_place);
}

std::unique_ptr<Communicator> VirtualCommunicator::do_split(Call&& call) { return made_by(call); }

std::unique_ptr<VirtualCommunicator> VirtualCommunicator::new_group(std::string name,
                                                                    const std::vector<int>& members,
                                                                    Site site) {
  Call call(Operation::new_group, site);
  call.rare = RareArguments{.name = std::move(name), .members = members};
  const std::size_t record = record_call(call);
  std::unique_ptr<VirtualCommunicator> made = made_by(call);
  recorder().set_waited(record);
  return made;
}

VirtualGroups::VirtualGroups(RankState& rank)
    : rank_(rank), world_(rank, rank.world.world_group(), rank.world.slot_of(rank.rank)) {}

Communicator* VirtualGroups::find(std::string_view kind) {
  if (kind == "world") return &world_;
  const auto known = by_kind_.find(kind);
  if (known != by_kind_.end()) return known->second.get();
  GroupState* group = rank_.world.layout_group(kind, rank_.rank);
  std::unique_ptr<VirtualCommunicator> made;
  if (group != nullptr)
    made = std::make_unique<VirtualCommunicator>(rank_, *group, group->group.place_of(rank_.rank));
  return by_kind_.emplace(std::string(kind), std::move(made)).first->second.get();
}

Communicator& VirtualGroups::get(std::string_view kind) {
  Communicator* found = find(kind);
  if (found != nullptr) return *found;
  refuse_no_group(rank_.world.spec().layout, rank_.rank, kind);
}

Communicator* VirtualGroups::new_group(std::string name, const std::vector<int>& members, Site site) {
  require_new_group(
      rank_.world.spec().layout, rank_.rank, name, members, world_.size(),
      [this](int member) { return rank_.world.slot_of(member) >= 0; }, site);
  std::unique_ptr<VirtualCommunicator> made = world_.new_group(std::move(name), members, site);
  if (made == nullptr) return nullptr;
  return made_.emplace_back(std::move(made)).get();
}

}  // namespace sim
