#include "sim/world/virtual_world.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <exception>
#include <fmt/format.h>
#include <iterator>
#include <new>
#include <numeric>
#include <poll.h>
#include <utility>

#include "sim/base/check.h"
#include "sim/base/error.h"
#include "sim/base/exception_text.h"
#include "sim/base/printable_text.h"
#include "sim/comm/refused_call.h"
#include "sim/comm/refused_elsewhere.h"
#include "sim/comm/split_parts.h"
#include "sim/fibers/signal_stack.h"
#include "sim/world/agreement.h"
#include "sim/world/diagnosis.h"
#include "sim/world/running_rank.h"
#include "sim/world/transfer.h"
#include "sim/world/virtual_communicator.h"

namespace sim {

namespace {

std::vector<int> present_ranks(const WorldSpec& spec) {
  if (!spec.ranks.empty()) return spec.ranks;
  std::vector<int> ranks(static_cast<std::size_t>(spec.layout.grid_size));
  std::iota(ranks.begin(), ranks.end(), spec.layout.first_rank);
  return ranks;
}

std::shared_ptr<StackPool> stacks_for(const WorldSpec& spec, std::size_t ranks) {
  if (spec.stacks != nullptr) return spec.stacks;
  return std::make_shared<StackPool>(spec.stack_bytes, ranks <= kMostGuardedRanks, ranks);
}

/// The memory of so many ranks, of which each needs about a KiB at a time, stays in the cache.
constexpr std::size_t kInCache = 32;

/// Returns the number of workers. pct runs one rank at a time, so one worker is enough.
int workers(const WorldSpec& spec, int ranks) {
  return spec.schedule.policy == SchedulePolicy::pct ? 1 : std::min(spec.threads, ranks);
}

/// Writes that a rank which waits for a file descriptor has made no call for so long, and which was its last.
void tell_silence(const RankState& rank, int seconds) {
  const CallLog& calls = rank.recorder->calls();
  const std::string last =
      calls.empty() ? "" : fmt::format(", since its call at {}", printable_text(text_of(calls.back().site)));
  std::fputs(fmt::format("rank {} has run without a call for {} s{}\n", rank.rank, seconds, last).c_str(),
             stderr);
}

/// Waits until one of these ranks can go on: its file descriptor is readable, or has been hung up.
void wait_for_any(std::span<pollfd> waiting, std::span<const RankState* const> ranks) {
  constexpr int kSecond = 1000;
  std::uint32_t answered = silence_asked();
  for (int seconds = 0;;) {
    const int ready = poll(waiting.data(), waiting.size(), kSecond);
    if (ready > 0) return;
    SIM_CHECK(ready == 0 || errno == EINTR);  // a signal interrupts it
    seconds += ready == 0 ? 1 : 0;
    const bool is_asked = answered != silence_asked();
    answered = silence_asked();
    if (!is_asked && (ready < 0 || seconds != silence_seconds())) continue;
    for (const RankState* rank : ranks) tell_silence(*rank, seconds);
  }
}

}  // namespace

VirtualWorld::VirtualWorld(const WorldSpec& spec, Device& device)
    : spec_(spec),
      present_(present_ranks(spec)),
      ranks_(present_.size()),
      stacks_(stacks_for(spec, present_.size())),
      crew_(workers(spec, static_cast<int>(present_.size()))),
      scheduler_(spec.schedule, static_cast<int>(present_.size())),
      random_(spec.seed),
      has_no_elements_(!device.has_elements(DType::f32)),
      arrives_at_once_(crew_.size() == 1),
      fetches_ahead_(present_.size() > kInCache),
      world_group_(&add_group("world", 0, present_)) {
  for (std::size_t slot = 0; slot < ranks_.size(); ++slot) {
    RankState& state = ranks_[slot].emplace(*this, present_[slot], static_cast<int>(slot));
    state.device = device.for_rank(state.rank);
    state.recorder->keep_moments(*state.device);
  }
}

VirtualWorld::~VirtualWorld() = default;

int VirtualWorld::slot_of(int rank) const {
  if (!spec_.ranks.empty()) {
    const auto found = std::lower_bound(present_.begin(), present_.end(), rank);
    return found == present_.end() || *found != rank ? -1 : static_cast<int>(found - present_.begin());
  }
  const int slot = rank - spec_.layout.first_rank;
  return slot >= 0 && slot < spec_.layout.grid_size ? slot : -1;
}

std::vector<std::shared_ptr<const void>> VirtualWorld::release_groups() {
  std::vector<std::shared_ptr<const void>> kept;
  kept.reserve(groups_.size());
  for (auto& [name, group] : groups_) kept.push_back(std::shared_ptr<const void>(std::move(group)));
  return kept;
}

// ---- groups -----------------------------------------------------------------------------------------------

GroupState& VirtualWorld::add_group(std::string kind, int index, std::vector<int> members) {
  auto state = std::make_unique<GroupState>();
  state->group = {kind, index, std::move(members), spec_.nodes.gpus_per_node};
  state->running.reserve(state->group.members.size());
  std::copy_if(state->group.members.begin(), state->group.members.end(), std::back_inserter(state->running),
               [this](int member) { return slot_of(member) >= 0; });
  const auto [entry, is_new] = groups_.emplace(std::pair(std::move(kind), index), std::move(state));
  SIM_CHECK(is_new);
  return *entry->second;
}

GroupState* VirtualWorld::layout_group(std::string_view name, int rank) {
  const GroupKind* kind = spec_.layout.find(name);
  if (kind == nullptr) return nullptr;
  const auto place = kind->place_of(rank);
  if (!place) return nullptr;
  const std::lock_guard lock(groups_mutex_);
  const auto known = groups_.find({kind->name(), place->group});
  if (known != groups_.end()) return known->second.get();
  std::vector<int> members = kind->members(place->group);
  for (const int member : members) {
    if (has_no_elements_ || slot_of(member) >= 0) continue;
    refuse({.code = "group_not_present",
            .option = fmt::format("rank {}, group '{}'", rank, name),
            .numbers = fmt::format("its member rank {} does not run", member),
            .rule = "all members of a group that a rank uses run in the world",
            .hint = "add the rank to WorldSpec::ranks"});
  }
  return &add_group(kind->name(), place->group, std::move(members));
}

/// Makes the group of a new_group call, and those of ranks that make their own meanwhile.
void VirtualWorld::make_named_groups(std::span<PostedCall* const> calls) {
  const Call& shared = shared_call(calls).call;
  const int index = static_cast<int>(shared.sequence);
  GroupState& made = add_group(shared.rare->name, index, shared.rare->members);
  for (int place = 0; place < made.group.size(); ++place) {
    PostedCall& call = *calls[static_cast<std::size_t>(slot_of(made.group.rank_at(place)))];
    call.made = &made;
    call.made_place = place;
  }
  for (PostedCall* call : calls) {
    if (call->made != nullptr || !makes_own_group(*call)) continue;
    const int rank = call->rank_state.rank;
    call->made = &add_group(fmt::format("{} of rank {}", call->call.rare->name, rank), index, {rank});
    call->made_place = 0;
  }
}

/// Makes the groups of a split or new_group. Their names come from the call, so they are the same in every
/// run.
void VirtualWorld::make_groups(GroupState& parent, std::span<PostedCall* const> calls) {
  const Call& first = calls.front()->call;
  if (first.operation == Operation::new_group) return make_named_groups(calls);
  std::vector<ColorAndKey> by_place(calls.size());
  for (const PostedCall* call : calls)
    by_place[static_cast<std::size_t>(call->place)] = {call->call.rare->color, call->call.rare->key};
  const std::vector<SplitPart> parts = split_parts(by_place);
  const std::string name = split_name(parent.group, first.sequence);
  for (std::size_t index = 0; index < parts.size(); ++index) {
    GroupState& made = add_group(name, static_cast<int>(index), {});
    for (const int place : parts[index].places) {
      PostedCall& call = *calls[static_cast<std::size_t>(place)];
      call.made = &made;
      call.made_place = made.group.size();
      made.group.members.push_back(call.rank_state.rank);
      made.running.push_back(call.rank_state.rank);
    }
  }
}

// ---- the ranks' side --------------------------------------------------------------------------------------

bool VirtualWorld::is_unwound(RankState& rank) {
  if (++rank.refused_calls > kMostRefusals) {
    give_up(rank, thrown(rank, "rank_will_not_end",
                         "its program catches the exception that ends the world and makes more calls",
                         "a catch (...) in a rank program rethrows", "catch std::exception, or rethrow"));
  }
  if (std::uncaught_exceptions() > 0) return true;
  throw WorldEnded();
}

void VirtualWorld::give_up(RankState& rank, Finding finding) {
  rank.fail(std::move(finding));
  for (;;) rank.context->yield();  // The rank is never resumed.
}

/// Lets other ranks run.
void VirtualWorld::stop(RankState& rank) {
  yield(rank);
  static_cast<void>(is_over(rank));
}

/// Where the schedule is drawn, no other rank runs meanwhile: which ranks are ready is then the same in every
/// run.
void VirtualWorld::wait_outside(RankState& rank, int descriptor) {
  if (is_over(rank)) return;
  rank.outside = descriptor;
  if (scheduler_.stops_at_every_call()) {
    std::array<pollfd, 1> waiting = {{{.fd = descriptor, .events = POLLIN}}};
    const std::array<const RankState*, 1> ranks = {&rank};
    return wait_for_any(waiting, ranks);
  }
  rank.status = RankStatus::outside;
  yield(rank);
  static_cast<void>(is_over(rank));
}

void VirtualWorld::run_program(RankState& state, const RankProgram& program) {
  const RunningRank running(state);
  const auto throws = [&](std::string sentence) {
    state.fail(thrown(state, "rank_threw", std::move(sentence), "a rank program lets no exception out",
                      "catch the exception, or fix the code that throws it"));
  };
  try {
    state.groups = std::make_unique<VirtualGroups>(state);
    Rank rank{state.rank, spec_.layout, *state.device, *state.groups, random_, *state.recorder};
    program(rank);
    state.status = RankStatus::returned;
  } catch (const WorldEnded&) {
    state.status = RankStatus::ended_by_world;
    if (!ended_) throws("the exception that ends another world left the program");
  } catch (const Error& error) {
    const Refusal& refusal = error.refusal();
    state.threw_for_another = dynamic_cast<const RefusedElsewhere*>(&error) != nullptr;
    Finding finding = thrown(state, refusal.code, fmt::format("{}: {}", refusal.option, refusal.numbers),
                             refusal.rule, refusal.hint);
    if (const auto* refused = dynamic_cast<const RefusedCall*>(&error); refused != nullptr)
      finding.calls.insert(finding.calls.begin(), facts_of(refused->call(), state.rank, kRefusedIn));
    state.fail(std::move(finding));
  } catch (const std::bad_alloc&) {
    state.fail(thrown(state, "out_of_memory", "its program got no more memory from the system",
                      "the memory of this machine holds all ranks",
                      "keep fewer tensors, or run fewer ranks"));
  } catch (const std::exception& error) {
    throws(fmt::format("an exception left the program: {}", text_of(error)));
  } catch (...) {
    throws("an exception that is not a std::exception left the program");
  }
}

// ---- rounds -----------------------------------------------------------------------------------------------

void VirtualWorld::run(const RankProgram& program) {
  require_signal_stack();
  const ProcessEndWatch watch;
  watch_for_terminate();
  silence_.emplace(crew_.size());
  silence_->run_on(0, RunningRank::of_this_thread());
  for (auto& each : ranks_) {
    RankState& state = *each;
    state.context = make_context(spec_.contexts, *stacks_, state.rank,
                                 [&state, &program] { state.world.run_program(state, program); });
    if (spec_.contexts == ContextKind::fiber) state.fiber = static_cast<FiberContext*>(state.context.get());
  }
  try {
    run_rounds();
  } catch (const std::bad_alloc&) {
    end_the_rest();
    silence_.reset();
    refuse({.code = "out_of_memory",
            .option = fmt::format("the world of {} ranks", present_.size()),
            .numbers = "the system gives no more memory for the calls and groups of the ranks",
            .rule = "the memory of this machine holds all ranks",
            .hint = "keep fewer tensors, or run fewer ranks"});
  } catch (...) {
    end_the_rest();
    silence_.reset();
    throw;
  }
  end_the_rest();
  silence_.reset();
}

void VirtualWorld::run_rounds() {
  for (int slot = 0; slot < std::ssize(ranks_); ++slot) scheduler_.make_ready(slot);
  while (scheduler_.has_ready() || !outside_.empty()) {
    if (!scheduler_.has_ready()) admit_from_outside();
    run_round();
  }
  findings_ = diagnose(ranks_, groups_);
}

/// Waits until an outside rank can go on, and makes all that can ready.
void VirtualWorld::admit_from_outside() {
  std::vector<pollfd> waiting;
  std::vector<const RankState*> ranks;
  for (const int slot : outside_) {
    waiting.push_back({.fd = rank_at(slot).outside, .events = POLLIN});
    ranks.push_back(&rank_at(slot));
  }
  wait_for_any(waiting, ranks);
  std::vector<int> still_outside;
  for (std::size_t i = 0; i < outside_.size(); ++i) {
    if (waiting[i].revents == 0) {
      still_outside.push_back(outside_[i]);
    } else {
      rank_at(outside_[i]).status = RankStatus::runs;
      scheduler_.make_ready(outside_[i]);
    }
  }
  outside_ = std::move(still_outside);
}

/// Resumes the chosen ranks. A fiber stays with one worker, so that thread-local data stays valid, including
/// addresses of it that a compiler has cached. Consecutive ranks, which usually compute the same at the same
/// time, are on different workers. A round of one rank wakes no helper without need.
void VirtualWorld::resume_chosen() {
  const auto worker_of = [&](int slot) { return slot % crew_.size(); };
  const bool is_alone =
      chosen_.size() == 1 && (spec_.contexts == ContextKind::thread || worker_of(chosen_.front()) == 0);
  if (crew_.size() == 1 || is_alone) {
    next_of_round_ = 0;
    while (next_of_round_ < chosen_.size()) {
      RankState& rank = rank_at(chosen_[next_of_round_]);
      begin_next_of_round();
      resume(rank);
    }
    next_of_round_ = std::numeric_limits<std::size_t>::max();
    return;
  }
  crew_.for_each_worker([&](int worker) {
    silence_->run_on(worker, RunningRank::of_this_thread());
    for (const int slot : chosen_) {
      if (worker_of(slot) == worker) resume(rank_at(slot));
    }
  });
}

void VirtualWorld::run_round() {
  scheduler_.choose(chosen_);
  resume_chosen();
  silence_->end_round();
  for (std::size_t i = 0; i < chosen_.size(); ++i) {
    if (fetches_ahead_ && i + kAhead < chosen_.size()) rank_at(chosen_[i + kAhead]).prefetch_call();
    const int slot = chosen_[i];
    RankState& rank = rank_at(slot);
    const RankStatus status = rank.status;
    if (status == RankStatus::waits && rank.outbox.first() == nullptr) continue;
    for (PostedCall* call = rank.outbox.take(); call != nullptr;)
      arrive(*std::exchange(call, std::exchange(call->next, nullptr)));
    if (status == RankStatus::runs) scheduler_.make_ready(slot);
    if (status == RankStatus::outside) outside_.push_back(slot);
    const bool may_have_ended = status != RankStatus::runs && status != RankStatus::waits;
    if (may_have_ended && rank.context->ended()) rank.context.reset();
  }
  move_data();
}

void VirtualWorld::arrive(PostedCall& call) {
  if (is_point_to_point(call.operation())) {
    arrive_message(call);
  } else {
    arrive_collective(call);
  }
}

/// Keeps a call of a member that runs ahead of others. Members arrive at their calls in order, so that only
/// the first collective of a group can be complete.
void VirtualWorld::arrive_ahead(PostedCall& call) {
  GroupState& group = call.group_state;
  if (group.group.size() > 1) {
    SIM_CHECK(call.sequence() > group.first_sequence);
    return group.later[call.sequence()].add(call);
  }
  // Only the calls of a lone member that make groups arrive. Others are the identity, and have numbers too.
  group.first_sequence = call.sequence();
  arrive_collective(call);
}

/// Completes the first pending collective, at which all members have arrived.
void VirtualWorld::complete_first(GroupState& group) {
  Calls& calls = group.first.arrived;
  const auto by_place = [](const PostedCall* a, const PostedCall* b) { return a->place < b->place; };
  if (!group.first.is_in_order) std::sort(calls.begin(), calls.end(), by_place);
  // It stays pending if members disagree, and the diagnosis finds it when no rank can run.
  if (group.first.may_differ() && disagreement(calls)) return;
  compare_lines(group, calls);
  completed_.push_back({&group, std::move(calls)});
  ++group.first_sequence;
  const auto next = group.later.find(group.first_sequence);
  if (next == group.later.end()) {
    group.first = {empty_list()};
  } else {
    group.first = std::move(next->second);
    group.later.erase(next);
  }
}

/// Keeps the first collective of a group that members make at two different lines. If they make a later one
/// at the same lines the other way round, two calls have met in opposite orders.
void VirtualWorld::compare_lines(const GroupState& group, std::span<PostedCall* const> calls) {
  const Call& first = calls.front()->call;
  const auto other = std::ranges::find_if(calls, [&](const PostedCall* call) {
    return call->call.site.line != first.site.line || call->call.site.file != first.site.file;
  });
  if (other == calls.end()) return;
  const Call& second = (*other)->call;
  const std::pair name(group.group.kind, group.group.index);
  const std::string one_line = text_of(first.site), other_line = text_of(second.site);
  if (const auto crossed = other_lines_.find({name, {other_line, one_line}}); crossed != other_lines_.end()) {
    Finding& finding = crossed->second;
    finding.sentence =
        fmt::format("members of {} make calls {} and {} at the same two lines, in opposite orders",
                    group.group.kind, finding.calls.front().sequence, first.sequence);
    return;
  }
  const auto [entry, is_new] = other_lines_.try_emplace({name, {one_line, other_line}});
  if (!is_new) return;
  entry->second = {
      .code = "other_lines",
      .sentence = fmt::format("members of {} make call {} at different lines of their program",
                              group.group.kind, first.sequence),
      .rule = "calls of a group meet by their order; two equal calls in another order mix their values",
      .hint = "see whether both lines mean the same call"};
  for (const PostedCall* call : {calls.front(), *other})
    add_facts(entry->second, facts_of(call->call, group.group, call->rank_state.rank, "makes"));
}

std::vector<Finding> VirtualWorld::warnings() const {
  std::vector<Finding> all;
  for (const auto& [lines, finding] : other_lines_) all.push_back(finding);
  add_caught_refusals(all);
  return all;
}

/// Adds the refusals after which programs went on to their end: of each code the first one, and its ranks.
void VirtualWorld::add_caught_refusals(std::vector<Finding>& all) const {
  std::map<std::string, std::pair<const Refusal*, std::vector<int>>> caught;
  for (const std::optional<RankState>& state : ranks_) {
    const Refusal* const first = state->refusal_limit.first();
    if (first == nullptr || state->status != RankStatus::returned) continue;
    auto& [refusal, ranks] = caught[first->code];
    if (ranks.empty()) refusal = first;
    ranks.push_back(state->rank);
  }
  for (const auto& [code, one] : caught) {
    const auto& [refusal, ranks] = one;
    all.push_back({.code = "caught_refusal",
                   .sentence = fmt::format("{} went on after a refusal of the code {}: {}: {}",
                                           text_of_ranks(ranks), code, refusal->option, refusal->numbers),
                   .rule = refusal->rule,
                   .hint = refusal->hint});
  }
}

void VirtualWorld::arrive_message(PostedCall& call) {
  GroupState& group = call.group_state;
  const bool sends = call.call.operation == Operation::send;
  Channel& channel =
      group.channels[sends ? std::pair(call.place, call.call.peer) : std::pair(call.call.peer, call.place)];
  if (!sends) {
    channel.receives.push_back(&call);
  } else if (call.call.input->bytes() <= spec_.eager_bytes && spec_.eager_bytes > 0) {
    auto kept = std::make_unique<Call>(call.call);
    Tensor data = call.call.input->device().empty(call.call.dtype, call.call.input->shape());
    data.device().copy(call.call.input, data);
    kept->input = data;
    kept->output = CallTensor();
    channel.sends.push_back({nullptr, std::move(kept)});
    finish(call);
  } else {
    channel.sends.push_back({&call, nullptr});
  }
  match_message(group, channel);
}

void VirtualWorld::match_message(GroupState& group, Channel& channel) {
  if (channel.sends.empty() || channel.receives.empty()) return;
  PostedSend& send = channel.sends.front();
  PostedCall* receive = channel.receives.front();
  if (disagreement(send.call(), receive->call)) return;
  Calls calls = empty_list();
  calls.push_back(receive);
  if (send.posted != nullptr) calls.push_back(send.posted);
  completed_.push_back({&group, std::move(calls), std::move(send)});
  channel.sends.pop_front();
  channel.receives.pop_front();
}

/// Returns a list of calls that an earlier call has used, if there is one: a world makes the same few
/// collectives again and again.
VirtualWorld::Calls VirtualWorld::empty_list() {
  if (spare_lists_.empty()) return {};
  Calls list = std::move(spare_lists_.back());
  spare_lists_.pop_back();
  return list;
}

/// Moves one part of the data of a completed call.
void VirtualWorld::move(const Completed& done, int part, int parts) const {
  const ProcessGroup& group = done.group->group;
  if (done.is_message()) {
    transfer(done.message.call(), done.calls.front()->call);
  } else if (done.group->is_partial()) {
    const ProcessGroup running{group.kind, group.index, done.group->running, group.gpus_per_node};
    transfer(done.calls, running, spec_.reduction_order, part, parts);
  } else {
    transfer(done.calls, group, spec_.reduction_order, part, parts);
  }
}

/// Moves the data of all completed calls, shared by the threads of the crew.
void VirtualWorld::move_in_parts() {
  struct Job {
    std::size_t completed;
    int part;
    int parts;
  };
  std::vector<Job> jobs;
  jobs.reserve(completed_.size());
  for (std::size_t i = 0; i < completed_.size(); ++i) {
    const int parts = completed_[i].is_message() ? 1 : parts_of(completed_[i].calls, 4 * crew_.size());
    for (int part = 0; part < parts; ++part) jobs.push_back({i, part, parts});
  }
  const auto move_part = [&](std::int64_t index) {
    const Job& job = jobs[static_cast<std::size_t>(index)];
    move(completed_[job.completed], job.part, job.parts);
  };
  if (jobs.size() == 1) return move_part(0);
  crew_.for_each(std::ssize(jobs), move_part);
}

void VirtualWorld::move_data() {
  if (completed_.empty()) return;
  if (crew_.size() == 1) {
    for (const Completed& done : completed_) move(done, 0, 1);
  } else {
    move_in_parts();
  }
  for (Completed& done : completed_) {
    const Operation operation = done.calls.front()->call.operation;
    if (operation == Operation::split || operation == Operation::new_group)
      make_groups(*done.group, done.calls);
    for (PostedCall* call : done.calls) finish(*call);
    done.calls.clear();
    spare_lists_.push_back(std::move(done.calls));
  }
  completed_.clear();
}

void VirtualWorld::finish(PostedCall& call) {
  call.done = true;
  RankState& rank = call.rank_state;
  if (rank.waits_for != &call) return;
  rank.waits_for = nullptr;
  rank.status = RankStatus::runs;
  scheduler_.make_ready(rank.slot);
}

/// Unwinds the ranks that cannot continue: their waits throw WorldEnded. Ranks that were given up, or are
/// given up now, are never resumed, and the objects on their stacks are never destroyed.
void VirtualWorld::end_the_rest() {
  ended_ = true;
  next_of_round_ = std::numeric_limits<std::size_t>::max();  // a round may have been left by an error
  std::vector<const RankState*> threw;
  for (auto& state : ranks_) {
    RankState& rank = *state;
    if (rank.context == nullptr) continue;
    if (rank.context->started() && !rank.context->ended() && rank.threw == nullptr) {
      resume(rank);
      if (rank.threw != nullptr) threw.push_back(&rank);
    }
    if (rank.context->started() && !rank.context->ended()) {
      static_cast<void>(rank.context.release());
    } else {
      rank.context.reset();
    }
  }
  for (Finding& finding : findings_of_thrown(threw)) findings_.push_back(std::move(finding));
}

}  // namespace sim
