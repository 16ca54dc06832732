// Proves that the timeline of a run obeys its laws for random programs in random worlds, that its times
// equal those of an independent reference, and that nothing but the program changes it.

#include "sim/world/run_timeline.h"

#include <algorithm>
#include <atomic>
#include <functional>
#include <gtest/gtest.h>
#include <map>
#include <rapidcheck/gtest.h>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "sim/cpu/cpu_device.h"
#include "sim/tensor/counting_device.h"
#include "tests/support/layout_generator.h"

namespace {

using namespace sim;

// ---- Random programs ----

/// One step of a program that is correct in any layout: each rank computes for a different time and then
/// calls on its group of one kind.
struct Step {
  std::string kind;
  int call;
  std::int64_t count;
  bool is_kept;  // a call that is started is waited for at the end of the program, not in the step
};

void compute(Rank& rank, std::int64_t elements) { filled(rank.device, DType::f32, {elements}, 1); }

void take(Rank& rank, const Step& step, int number, std::vector<Work>& kept) {
  compute(rank, (rank.id * 37 + number * 11) % 50);
  Communicator* group = rank.groups.find(step.kind);
  if (group == nullptr) return;
  const int n = group->size();
  const auto zeros = [&](std::int64_t count) {
    return from_host(rank.device, DType::f32, {count},
                     std::vector<std::byte>(static_cast<std::size_t>(4 * count)));
  };
  const auto started = [&](Work work) {
    if (step.is_kept) {
      kept.push_back(std::move(work));
      return;
    }
    compute(rank, step.count);
    work.wait();
  };
  switch (step.call) {
    case 0:
      return group->all_reduce(zeros(step.count), ReduceOp::sum, "all_reduce");
    case 1:
      return group->all_gather(zeros(step.count), zeros(step.count * n), "all_gather");
    case 2:
      return group->barrier("barrier");
    case 3:
      return started(
          group->start_reduce_scatter(zeros(step.count * n), zeros(step.count), ReduceOp::sum, "started"));
    case 4:
      return started(group->start_broadcast(zeros(step.count), number % n, "broadcast"));
    case 5:
      group->split(group->rank() % 2, 0, "split");
      return;
    default: {
      if (n == 1) return;
      Work receive = group->start_recv(zeros(step.count), (group->rank() + n - 1) % n, "recv");
      if (step.call == 6) {
        group->send(zeros(step.count), (group->rank() + 1) % n, "send");
      } else {
        started(group->start_send(zeros(step.count), (group->rank() + 1) % n, "send"));
      }
      started(std::move(receive));
    }
  }
}

RankProgram program_of(const std::vector<Step>& steps) {
  return [steps](Rank& rank) {
    std::vector<Work> kept;
    for (std::size_t i = 0; i < steps.size(); ++i) take(rank, steps[i], static_cast<int>(i), kept);
    compute(rank, rank.id % 5);
    for (Work& work : kept) work.wait();
    compute(rank, 3);
  };
}

WorldSpec drawn_world() {
  const ParallelSizes sizes = *rc::gen::suchThat(test::accepted_megatron_sizes(),
                                                 [](const ParallelSizes& s) { return s.world_size <= 16; });
  WorldSpec spec{.layout = make_layout(sizes, RuleBook::megatron)};
  spec.nodes.gpus_per_node = *rc::gen::inRange(1, 9);
  spec.eager_bytes = *rc::gen::element<std::int64_t>(0, 8, 1000);
  return spec;
}

std::vector<Step> drawn_steps(const Layout& layout) {
  std::vector<Step> steps;
  const int count = *rc::gen::inRange(1, 9);
  for (int i = 0; i < count; ++i) {
    const auto kind = *rc::gen::inRange<std::size_t>(0, layout.kinds.size());
    steps.push_back({layout.kinds[kind].name(), *rc::gen::inRange(0, 8),
                     *rc::gen::inRange<std::int64_t>(0, 9), *rc::gen::arbitrary<bool>()});
  }
  return steps;
}

RunReport counted(const WorldSpec& spec, const RankProgram& program) {
  CpuDevice cpu;
  CountingDevice device(cpu);
  return simulate(spec, device, program);
}

TimelineCost drawn_cost(const WorldSpec& spec) {
  return {.work = *rc::gen::inRange<std::int64_t>(0, 5),
          .latency = *rc::gen::inRange<std::int64_t>(0, 80),
          .byte_inside = *rc::gen::inRange<std::int64_t>(0, 3),
          .byte_across = *rc::gen::inRange<std::int64_t>(0, 9),
          .eager_bytes = spec.eager_bytes};
}

// ---- Laws ----

/// Identifies the call in which ranks meet, by names and numbers alone: the kind and index of the group,
/// the sequence number of the call, and for a message the sending and the receiving rank (-1 otherwise).
using Meeting = std::tuple<std::string, int, std::int64_t, int, int>;

Meeting meeting_of(const CallRecord& call, int rank) {
  int from = -1, to = -1;
  if (is_point_to_point(call.operation)) {
    const int peer = call.group->members[static_cast<std::size_t>(call.root_or_peer)];
    from = call.operation == Operation::send ? rank : peer;
    to = call.operation == Operation::send ? peer : rank;
  }
  return {call.group->kind, call.group->index, call.sequence, from, to};
}

bool is_eager_send(const CallRecord& call, const TimelineCost& cost) {
  return call.operation == Operation::send && cost.eager_bytes > 0 && call.count * 4 <= cost.eager_bytes;
}

/// Returns the first law that the timeline of a run without findings breaks, or "".
std::string broken_law(const RunReport& run, const RunTimeline& timeline, const TimelineCost& cost) {
  std::map<Meeting, std::set<std::int64_t>> ends;
  std::map<Meeting, std::int64_t> send_begins;
  std::int64_t last = 0;
  for (std::size_t rank = 0; rank < run.ranks.size(); ++rank) {
    const RankReport& report = run.ranks[rank];
    std::vector<int> slices_of_calls(report.calls.size(), 0);
    std::map<int, std::int64_t> lane_ends;
    std::int64_t computed = 0, filled_time = 0;
    for (const Slice& slice : timeline.ranks[rank]) {
      if (slice.is_vain || slice.end < slice.begin) return "a slice ends before it begins, or never";
      if (slice.begin < lane_ends[slice.lane]) return "slices of a lane overlap";
      if (slice.lane == 0 && slice.begin > lane_ends[0]) return "a rank does nothing";
      lane_ends[slice.lane] = slice.end;
      last = std::max(last, slice.end);
      if (slice.lane == 0) filled_time += slice.end - slice.begin;
      if (slice.kind == SliceKind::compute) computed += slice.end - slice.begin;
      if (slice.kind != SliceKind::call) continue;
      ++slices_of_calls[slice.record];
      const CallRecord& call = report.calls[slice.record];
      const Meeting meeting = meeting_of(call, report.rank);
      if (call.operation == Operation::send) send_begins[meeting] = slice.begin;
      if (!is_eager_send(call, cost)) ends[meeting].insert(slice.end);
      if (call.group->size() == 1 && slice.end != slice.begin) return "a call of a group of one takes time";
      if (call.group->size() > 1 && slice.end - slice.begin < cost.latency) return "a call is too short";
    }
    if (filled_time != lane_ends[0]) return "slices do not add up to the time of a rank";
    if (computed != report.work * cost.work) return "what a rank computes is not its work";
    for (const int slices : slices_of_calls) {
      if (slices != 1) return "a call does not have one slice";
    }
    for (const Slice& wait : timeline.ranks[rank]) {
      if (wait.kind != SliceKind::wait) continue;
      for (const Slice& call : timeline.ranks[rank]) {
        if (call.kind != SliceKind::call || call.record != wait.record) continue;
        if (wait.end != (call.lane == 0 ? call.begin : call.end)) return "a wait ends too early or late";
      }
    }
  }
  for (const auto& [meeting, times] : ends) {
    if (times.size() != 1) return "a call ends at different times on its members";
  }
  for (const auto& [meeting, begin] : send_begins) {
    if (*ends.at(meeting).begin() < begin) return "a message arrives before it is sent";
  }
  return last == timeline.length ? "" : "the length is not the last end";
}

// ---- A reference: times are raised until every rule holds ----

struct Times {
  /// The begin and the end of each call, by rank and record.
  std::map<std::pair<std::size_t, std::size_t>, std::pair<std::int64_t, std::int64_t>> calls;
  std::vector<std::int64_t> ends;  // by rank
  bool operator==(const Times&) const = default;
};

std::int64_t cost_of(const CallRecord& call, const TimelineCost& cost) {
  return cost.latency + call.bytes_inside * cost.byte_inside + call.bytes_across * cost.byte_across;
}

/// Every rank goes through its moments with the times that the previous pass left, until a pass changes
/// nothing.
Times least_times(const RunReport& run, const TimelineCost& cost) {
  std::map<Meeting, std::int64_t> duration, ready, over;
  for (const RankReport& rank : run.ranks) {
    for (const CallRecord& call : rank.calls) {
      std::int64_t& longest = duration[meeting_of(call, rank.rank)];
      if (call.group->size() > 1) longest = std::max(longest, cost_of(call, cost));
    }
  }
  Times times;
  for (bool has_changed = true; has_changed;) {
    const Times before = times;
    times.ends.assign(run.ranks.size(), 0);
    for (std::size_t index = 0; index < run.ranks.size(); ++index) {
      const RankReport& rank = run.ranks[index];
      std::int64_t now = 0, work = 0;
      for (const Moment& moment : rank.moments) {
        now += (moment.work - work) * cost.work;
        work = moment.work;
        const CallRecord& call = rank.calls[moment.record];
        const Meeting meeting = meeting_of(call, rank.rank);
        auto& [begin, end] = times.calls[{index, moment.record}];
        if (moment.kind != MomentKind::wait) {
          ready[meeting] = std::max(ready[meeting], now);
          Meeting earlier = meeting;
          --std::get<2>(earlier);
          const auto one_before = over.find(earlier);
          begin = is_eager_send(call, cost)
                      ? now
                      : std::max(ready[meeting], one_before == over.end() ? 0 : one_before->second);
          end = begin + duration[meeting];
          if (!is_eager_send(call, cost)) over[meeting] = std::max(over[meeting], end);
        }
        if (moment.kind != MomentKind::start) now = std::max(now, end);
      }
      times.ends[index] = now + (rank.work - work) * cost.work;
    }
    has_changed = !(times == before);
  }
  return times;
}

Times times_of(const RunTimeline& timeline) {
  Times times;
  for (std::size_t rank = 0; rank < timeline.ranks.size(); ++rank) {
    times.ends.push_back(0);
    for (const Slice& slice : timeline.ranks[rank]) {
      if (slice.kind == SliceKind::call) times.calls[{rank, slice.record}] = {slice.begin, slice.end};
      if (slice.lane == 0) times.ends.back() = std::max(times.ends.back(), slice.end);
    }
  }
  return times;
}

// ---- Tests ----

RC_GTEST_PROP(RunTimeline, TheLawsHoldAndTimesAreTheLeastThatKeepThem, ()) {
  const WorldSpec spec = drawn_world();
  const RunReport run = counted(spec, program_of(drawn_steps(spec.layout)));
  if (!run.ok()) RC_FAIL(run.failure());
  const TimelineCost cost = drawn_cost(spec);
  const RunTimeline timeline = run_timeline(run, cost);
  RC_ASSERT(broken_law(run, timeline, cost) == "");
  RC_ASSERT(times_of(timeline) == least_times(run, cost));
  std::int64_t sends = 0;
  for (const RankReport& rank : run.ranks) {
    sends += std::count_if(rank.calls.begin(), rank.calls.end(),
                           [](const CallRecord& call) { return call.operation == Operation::send; });
  }
  RC_ASSERT(std::ssize(timeline.messages) == sends);
  for (const MatchedMessage& message : timeline.messages) {
    const CallRecord& send = run.ranks[message.from].calls[message.send];
    const CallRecord& recv = run.ranks[message.to].calls[message.recv];
    RC_ASSERT(send.operation == Operation::send);
    RC_ASSERT(recv.operation == Operation::recv);
    RC_ASSERT(meeting_of(send, run.ranks[message.from].rank) == meeting_of(recv, run.ranks[message.to].rank));
  }
}

/// Runs a small program that has collectives and messages, blocking calls and started ones.
RunReport plain_run() {
  return counted(
      world_of(3),
      program_of({{"dp", 0, 2, false}, {"dp", 3, 2, true}, {"dp", 6, 2, false}, {"dp", 7, 3, true}}));
}

TEST(RunTimeline, TheLawsAndTheReferenceSeeWhatIsWrong) {
  const RunReport run = plain_run();
  const RunTimeline right = run_timeline(run);
  ASSERT_EQ(broken_law(run, right, {}), "");
  ASSERT_TRUE(times_of(right) == least_times(run, {}));
  const auto first = [](std::vector<Slice>& slices, SliceKind kind, int lane) -> Slice& {
    return *std::find_if(slices.begin(), slices.end(),
                         [&](const Slice& s) { return s.kind == kind && s.lane == lane; });
  };
  using Change = std::function<void(RunTimeline&)>;
  const std::map<std::string, Change> defects = {
      {"a call does not have one slice",
       [&](RunTimeline& t) {
         t.ranks[1].erase(t.ranks[1].begin() + (&first(t.ranks[1], SliceKind::call, 1) - t.ranks[1].data()));
       }},
      {"slices of a lane overlap", [&](RunTimeline& t) { ++first(t.ranks[1], SliceKind::compute, 0).end; }},
      {"a rank does nothing", [&](RunTimeline& t) { --first(t.ranks[1], SliceKind::compute, 0).end; }},
      {"a call ends at different times on its members",
       [&](RunTimeline& t) {
         --first(t.ranks[1], SliceKind::call, 1).begin, --first(t.ranks[1], SliceKind::call, 1).end;
       }},
      {"a call is too short",
       [&](RunTimeline& t) {
         first(t.ranks[1], SliceKind::call, 1).begin = first(t.ranks[1], SliceKind::call, 1).end;
       }},
      {"what a rank computes is not its work",
       [&](RunTimeline& t) { first(t.ranks[1], SliceKind::compute, 0).kind = SliceKind::wait; }},
      {"the length is not the last end", [&](RunTimeline& t) { ++t.length; }},
      {"a slice ends before it begins, or never", [&](RunTimeline& t) { t.ranks[2].back().is_vain = true; }},
  };
  for (const auto& [law, change] : defects) {
    RunTimeline wrong = right;
    change(wrong);
    const std::string found = broken_law(run, wrong, {});
    EXPECT_TRUE(found == law || (law.starts_with("a call ends") && found.starts_with("a wait ends")))
        << law << ": " << found;
  }
  // All laws still hold when everything happens later than necessary. The reference detects that.
  TimelineCost slower;
  ++slower.latency;
  EXPECT_EQ(broken_law(run, run_timeline(run, slower), {}), "");
  EXPECT_FALSE(times_of(run_timeline(run, slower)) == least_times(run, {}));
}

TEST(RunTimeline, AMessageBeforeItIsSentIsSeen) {
  const RunReport run = plain_run();
  RunTimeline timeline = run_timeline(run);
  const MatchedMessage message = timeline.messages.front();
  for (Slice& slice : timeline.ranks[message.from]) {
    if (slice.kind == SliceKind::call && slice.record == message.send) slice.begin = slice.end + 1;
  }
  EXPECT_NE(broken_law(run, timeline, {}), "");
}

RC_GTEST_PROP(RunTimeline, NothingButTheProgramReachesIt, ()) {
  const WorldSpec plain = drawn_world();
  const RankProgram program = program_of(drawn_steps(plain.layout));
  const TimelineCost cost = drawn_cost(plain);
  const RunTimeline first = run_timeline(counted(plain, program), cost);
  const auto seed = *rc::gen::arbitrary<std::uint64_t>();
  for (std::uint64_t i = 0; i < 8; ++i) {
    WorldSpec spec = plain;
    spec.schedule = {.policy = i % 2 == 0 ? SchedulePolicy::uniform : SchedulePolicy::pct, .seed = seed + i};
    spec.threads = i % 4 == 0 ? 3 : 1;
    if (i == 3) spec.contexts = ContextKind::thread;
    RC_ASSERT(run_timeline(counted(spec, program), cost) == first);
  }
}

/// Shows that the property above can fail: here the work of a rank depends on which rank runs first.
TEST(RunTimeline, WorkThatHangsOnTheScheduleShows) {
  const auto timeline = [](SchedulePolicy policy, std::uint64_t seed) {
    std::atomic<int> ranks_before = 0;
    WorldSpec spec = world_of(4);
    spec.schedule = {.policy = policy, .seed = seed};
    return run_timeline(counted(spec, [&](Rank& rank) {
      compute(rank, ++ranks_before);
      rank.groups.world().barrier("all");
    }));
  };
  const RunTimeline first = timeline(SchedulePolicy::round_robin, 0);
  bool differs = false;
  for (std::uint64_t seed = 0; seed < 8; ++seed)
    differs |= !(timeline(SchedulePolicy::uniform, seed) == first);
  EXPECT_TRUE(differs);
}

TEST(RunTimeline, TimesOfASmallProgram) {
  const RunReport run = counted(world_of(2), [](Rank& rank) {
    Communicator& world = rank.groups.world();
    compute(rank, rank.id == 0 ? 10 : 30);
    const Tensor x = from_host(rank.device, DType::f32, {1}, std::vector<std::byte>(4));
    Work work = world.start_all_reduce(x, ReduceOp::sum, "sum");
    compute(rank, 100);
    work.wait();
    world.barrier("all");
  });
  // The sum begins at 30 and takes 60 for its latency and 4 for its bytes. It is over before either rank
  // waits for it. At the barrier, rank 0 waits for rank 1.
  const RunTimeline timeline = run_timeline(run, {.latency = 60});
  using S = SliceKind;
  EXPECT_EQ(timeline.ranks[0], (std::vector<Slice>{{S::compute, 0, 0, 10, 0, false},
                                                   {S::compute, 0, 10, 110, 0, false},
                                                   {S::wait, 0, 110, 130, 1, false},
                                                   {S::call, 0, 130, 190, 1, false},
                                                   {S::call, 1, 30, 94, 0, false}}));
  EXPECT_EQ(timeline.ranks[1].back(), (Slice{S::call, 1, 30, 94, 0, false}));
  EXPECT_EQ(timeline.length, 190);
}

TEST(RunTimeline, WhatNeverEndsLastsToTheEnd) {
  const RunReport missing = counted(world_of(3), [](Rank& rank) {
    compute(rank, 10 + rank.id);
    if (rank.id == 1) return;
    Work work = rank.groups.world().start_barrier("started");
    if (rank.id == 0) return rank.groups.world().barrier("blocking");
    work.wait();
  });
  ASSERT_FALSE(missing.ok());
  const RunTimeline timeline = run_timeline(missing);
  EXPECT_EQ(timeline.length, 12 + TimelineCost().latency);
  using S = SliceKind;
  EXPECT_EQ(timeline.ranks[0], (std::vector<Slice>{{S::compute, 0, 0, 10, 0, false},
                                                   {S::call, 0, 10, 76, 1, true},
                                                   {S::call, 1, 10, 76, 0, true}}));
  EXPECT_EQ(timeline.ranks[1], (std::vector<Slice>{{S::compute, 0, 0, 11, 0, false}}));
  EXPECT_EQ(timeline.ranks[2], (std::vector<Slice>{{S::compute, 0, 0, 12, 0, false},
                                                   {S::wait, 0, 12, 76, 0, true},
                                                   {S::call, 1, 12, 76, 0, true}}));
  const RunReport disagree = counted(world_of(2), [](Rank& rank) {
    const Tensor x = from_host(rank.device, DType::f32, {1 + rank.id},
                               std::vector<std::byte>(static_cast<std::size_t>(4 + 4 * rank.id)));
    rank.groups.world().all_reduce(x, ReduceOp::sum, "sum");
  });
  EXPECT_EQ(run_timeline(disagree).ranks[1], (std::vector<Slice>{{S::call, 0, 0, 64, 0, true}}));
}

TEST(RunTimeline, ARunThatWasNotCountedHasNoSlices) {
  CpuDevice cpu;
  const RunReport run = simulate(world_of(2), cpu, [](Rank& rank) { rank.groups.world().barrier("all"); });
  const std::vector<CallTimes> untimed = {CallTimes{}};
  EXPECT_EQ(run_timeline(run),
            (RunTimeline{.ranks = {{}, {}}, .calls = {untimed, untimed}, .messages = {}, .length = 0}));
}

}  // namespace
