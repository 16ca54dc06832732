#pragma once

/// The world of virtual ranks at run time. It works in rounds: the scheduler picks ready ranks, the crew runs
/// each of them up to where it has to wait, and then, with no rank running, the world takes what they posted
/// in the order of the round, matches it, and moves the data of what is complete.
///
/// So nothing here is locked but the table of groups, and the same seed gives the same schedule whatever the
/// number of threads. A rank stays with one worker.
///
/// Source  rounds in which requests are answered in a fixed order: SimGrid.

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/comm/rank.h"
#include "sim/world/crew.h"
#include "sim/world/finding.h"
#include "sim/world/group_state.h"
#include "sim/world/world_spec.h"

namespace sim {

/// Thrown through a rank that waits for what will never be; no std::exception, so that programs do not catch
/// it.
struct WorldEnded {};

enum class RankStatus { runs, waits, returned, threw, ended_by_world };

class VirtualWorld;
class RankState;

/// A finding about what left a rank's program, with the last call it made.
Finding thrown(const RankState& state, std::string code, std::string sentence, std::string rule,
               std::string hint);

/// One rank: its program's context, what it waits for, what it has posted.
class RankState {
 public:
  RankState(VirtualWorld& owner, int global_rank, std::int64_t call_limit);
  /// Its program is over, and this is why.
  void fail(Finding finding);

  VirtualWorld& world;
  int rank;
  RankStatus status = RankStatus::runs;
  std::shared_ptr<Recorder> recorder;
  std::shared_ptr<Device> device;
  std::unique_ptr<Groups> groups;
  std::unique_ptr<Context> context;
  std::vector<PostedCall*> outbox;  // posted since the rank last stopped
  PostedCall* waits_for = nullptr;  // set while status is waits
  std::unique_ptr<Finding> threw;   // what its program threw, or why it was given up
  int refused_calls = 0;            // since the world ended
};

class VirtualWorld {
 public:
  VirtualWorld(const WorldSpec& spec, Device& device);
  ~VirtualWorld();
  VirtualWorld(const VirtualWorld&) = delete;
  VirtualWorld& operator=(const VirtualWorld&) = delete;

  /// Runs the program on every rank until all have ended or none can go on; then ends those that are left.
  /// What goes wrong on the world's side (no memory for a stack) is thrown when every rank has been unwound.
  void run(const RankProgram& program);

  // ---- for the ranks' side: communicators and groups ----
  const WorldSpec& spec() const { return spec_; }
  GroupState& world_group() { return *world_group_; }
  /// The group of a kind that holds the rank; null where none does. Any rank, at any time.
  GroupState* layout_group(std::string_view kind, int rank);
  void post(RankState& rank, PostedCall& call);
  /// Called by a rank: comes back when the call is done.
  void wait_for(RankState& rank, PostedCall& call);
  /// Called by a rank that can be neither resumed nor unwound: its stack is left as it is.
  [[noreturn]] void give_up(RankState& rank, Finding finding);

  // ---- for the report ----
  std::vector<std::unique_ptr<RankState>>& ranks() { return ranks_; }
  const std::map<std::pair<std::string, int>, std::unique_ptr<GroupState>>& groups() const { return groups_; }
  std::vector<Finding>& findings() { return findings_; }
  std::uint64_t schedule_hash() const { return scheduler_.hash(); }
  bool has_guarded_stacks() const { return stacks_->guarded(); }
  /// Of a global rank; -1 when it does not run.
  int slot_of(int rank) const;
  /// The groups, for call records that outlive the world.
  std::vector<std::shared_ptr<const void>> release_groups();

 private:
  struct Completed {
    GroupState* group;
    std::vector<PostedCall*>
        calls;  // of a collective, by place; of a message: the recv and, unless eager, the send
    Call message = {.operation = Operation::barrier, .site = ""};  // of a message: its send
    bool is_message() const { return message.operation == Operation::send; }
  };

  bool is_over(RankState& rank);
  void resume(int slot);
  void run_rounds();
  void run_program(RankState& rank, const RankProgram& program);
  void run_round();
  void arrive(PostedCall& call);
  void arrive_collective(PostedCall& call);
  void arrive_message(PostedCall& call);
  void match_message(GroupState& group, Channel& channel);
  void complete_front(GroupState& group);
  void move_data();
  void finish(PostedCall& call);
  void make_groups(GroupState& parent, std::span<PostedCall* const> calls);
  GroupState& add_group(std::string kind, int index, std::vector<int> members);
  void end_the_rest();

  const WorldSpec& spec_;
  std::vector<int> present_;  // global rank of each slot
  std::vector<std::unique_ptr<RankState>> ranks_;
  std::shared_ptr<StackPool> stacks_;
  Crew crew_;
  Scheduler scheduler_;
  KeyedRandom random_;
  std::mutex groups_mutex_;
  std::map<std::pair<std::string, int>, std::unique_ptr<GroupState>> groups_;
  GroupState* world_group_;
  std::vector<int> chosen_;
  std::vector<Completed> completed_;
  std::vector<Finding> findings_;
  bool ended_ = false;
};

}  // namespace sim
