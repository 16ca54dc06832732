#pragma once

/// The world of virtual ranks at run time. It works in rounds: the scheduler chooses ready ranks, and the
/// crew runs each of them until it has to wait: a rank that waits gives its thread to the next one of the
/// round. The world takes the calls that they posted in the order of the round and matches them: where one
/// worker runs all ranks, a collective arrives as it is posted, and everything else when no rank runs any
/// more. Then it moves the data of those that are complete.
///
/// Therefore only the table of groups needs a lock, and the same seed gives the same schedule for any
/// number of threads. A rank always runs on the same worker.
///
/// Source  SimGrid, for rounds in which requests are answered in a fixed order.

#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/base/check.h"
#include "sim/comm/rank.h"
#include "sim/world/crew.h"
#include "sim/world/finding.h"
#include "sim/world/group_state.h"
#include "sim/world/process_end.h"
#include "sim/world/rank_state.h"
#include "sim/world/running_rank.h"
#include "sim/world/silence.h"
#include "sim/world/world_spec.h"

namespace sim {

/// The exception that unwinds a rank whose call will never complete. It is not a std::exception, so that
/// programs do not catch it by accident.
struct WorldEnded {};

class VirtualWorld {
 public:
  VirtualWorld(const WorldSpec& spec, Device& device);
  ~VirtualWorld();
  VirtualWorld(const VirtualWorld&) = delete;
  VirtualWorld& operator=(const VirtualWorld&) = delete;

  /// Runs the program on every rank until all have ended or none can continue, and then ends those that are
  /// left. Errors of the world itself, such as no memory for a stack, are thrown when every rank has been
  /// unwound.
  void run(const RankProgram& program);

  // ---- for communicators and groups, which run on the ranks ----
  const WorldSpec& spec() const { return spec_; }
  GroupState& world_group() { return *world_group_; }
  /// Returns the group of a kind that contains the rank; null if there is none. Any rank may call it at any
  /// time.
  GroupState* layout_group(std::string_view kind, int rank);
  /// Posts a call of the running rank.
  [[gnu::always_inline]] void post(RankState& rank, PostedCall& call) {
    require_own_stack();
    if (is_over(rank)) return;
    rank.latest_call = &call;
    if (arrives_at_once_ && !is_point_to_point(call.operation())) {
      arrive_from_stack(call);
    } else {
      rank.outbox.add(call);
    }
    if (scheduler_.stops_at_every_call()) stop(rank);
  }
  /// Returns when the call is done. The rank that made it calls this.
  [[gnu::always_inline]] void wait_for(RankState& rank, PostedCall& call) {
    if (is_over(rank)) return;
    rank.status = RankStatus::waits;
    rank.waits_for = &call;
    yield(rank);
    SIM_CHECK(call.done || is_over(rank));
  }
  /// Returns when the file descriptor is readable, or has been hung up.
  void wait_outside(RankState& rank, int descriptor);
  /// Posts a call of the running rank, and returns when it is done.
  [[gnu::always_inline]] void run_call(RankState& rank, PostedCall& call) {
    post(rank, call);
    if (!call.done) wait_for(rank, call);
  }
  /// Gives up the running rank, which can be neither resumed nor unwound. Its stack is left as it is.
  [[noreturn]] void give_up(RankState& rank, Finding finding);

  // ---- for the report ----
  RankStates& ranks() { return ranks_; }
  const GroupTable& groups() const { return groups_; }
  std::vector<Finding>& findings() { return findings_; }
  std::vector<Finding> warnings() const;
  std::uint64_t schedule_hash() const { return scheduler_.hash(); }
  bool has_guarded_stacks() const { return stacks_->guarded(); }
  /// Returns the slot of a global rank; -1 if the rank does not run.
  int slot_of(int rank) const;
  /// Hands over the groups, because call records that point to them outlive the world.
  std::vector<std::shared_ptr<const void>> release_groups();

 private:
  /// The number of ranks between the one that runs and the one whose memory is fetched into the cache. It
  /// takes about as long to fetch it as these ranks take.
  static constexpr std::size_t kAhead = 4;

  using Calls = std::vector<PostedCall*>;
  /// A collective or a message whose calls are complete, and whose data has to be moved.
  struct Completed {
    GroupState* group;
    Calls calls;  // of a collective, by place; of a message: the recv and, unless it was eager, the send
    PostedSend message = {nullptr, nullptr};  // of a message: its send
    bool is_message() const { return message.posted != nullptr || message.kept != nullptr; }
  };

  /// Ends the rank by WorldEnded if the world has ended. While an exception already unwinds the rank, another
  /// one must not be thrown: it then returns true, and the call does nothing.
  bool is_over(RankState& rank) { return ended_ && is_unwound(rank); }
  bool is_unwound(RankState& rank);
  void stop(RankState& rank);
  void resume(RankState& rank) {
    const RunningRank running(rank);
    rank.context->resume();
  }
  /// Suspends a rank. The next rank of the round runs in its place, where this worker runs all of them and
  /// that rank's program has begun.
  [[gnu::always_inline]] void yield(RankState& rank) {
    if (next_of_round_ < chosen_.size()) {
      RankState& next = rank_at(chosen_[next_of_round_]);
      if (next.fiber != nullptr && next.fiber->can_take_over()) {
        begin_next_of_round();
        RunningRank::hand_over(next);
        return rank.fiber->yield_to(*next.fiber);
      }
    }
    rank.context->yield();
  }
  /// Fetches the memory of a rank that comes later, and moves on to the next rank.
  void begin_next_of_round() {
    const std::size_t ahead = next_of_round_++ + kAhead;
    if (fetches_ahead_ && ahead < chosen_.size()) rank_at(chosen_[ahead]).prefetch_stack();
  }
  RankState& rank_at(int slot) { return *ranks_[static_cast<std::size_t>(slot)]; }
  void run_rounds();
  void admit_from_outside();
  void run_program(RankState& rank, const RankProgram& program);
  void run_round();
  void resume_chosen();
  void arrive(PostedCall& call);
  [[gnu::always_inline]] void arrive_collective(PostedCall& call) {
    GroupState& group = call.group_state;
    if (call.sequence() != group.first_sequence) return arrive_ahead(call);
    group.first.add(call);
    if (group.first.arrived.size() == group.running.size()) complete_first(group);
  }
  /// The world keeps a call that lies on the rank's stack. Where it has no memory for that, the rank is given
  /// up as by std::terminate(), because its stack must not be unwound.
  [[gnu::always_inline]] void arrive_from_stack(PostedCall& call) noexcept { arrive_collective(call); }
  [[gnu::noinline]] void arrive_ahead(PostedCall& call);
  void compare_lines(const GroupState& group, std::span<PostedCall* const> calls);
  void add_caught_refusals(std::vector<Finding>& all) const;
  void arrive_message(PostedCall& call);
  void match_message(GroupState& group, Channel& channel);
  [[gnu::noinline]] void complete_first(GroupState& group);
  void move_data();
  void move_in_parts();
  void move(const Completed& done, int part, int parts) const;
  Calls empty_list();
  void finish(PostedCall& call);
  void make_named_groups(std::span<PostedCall* const> calls);
  void make_groups(GroupState& parent, std::span<PostedCall* const> calls);
  GroupState& add_group(std::string kind, int index, std::vector<int> members);
  void end_the_rest();

  const WorldSpec& spec_;
  std::vector<int> present_;  // by slot: the global rank
  RankStates ranks_;
  std::shared_ptr<StackPool> stacks_;
  Crew crew_;
  Scheduler scheduler_;
  KeyedRandom random_;
  bool has_no_elements_;  // the device is one of shapes, on which members of a group need not run
  bool arrives_at_once_;  // one worker runs all ranks, in the order of the round
  bool fetches_ahead_;    // the memory of ranks that will soon run is fetched into the cache
  std::mutex groups_mutex_;
  GroupTable groups_;
  GroupState* world_group_;
  std::vector<int> outside_;  // slots
  std::vector<int> chosen_;
  /// Where one worker runs all chosen ranks: the place of the next one among them; else, and between rounds,
  /// beyond the last.
  std::size_t next_of_round_ = std::numeric_limits<std::size_t>::max();
  std::vector<Completed> completed_;
  std::vector<Calls> spare_lists_;  // of completed calls, empty, for those that come
  std::vector<Finding> findings_;
  /// By the group, and by the two lines.
  std::map<std::pair<std::pair<std::string, int>, std::pair<std::string, std::string>>, Finding> other_lines_;
  std::optional<SilenceWatch> silence_;  // while its ranks run
  bool ended_ = false;
};

}  // namespace sim
