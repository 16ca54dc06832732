#include "verify/sweep/step_time.h"

#include <algorithm>
#include <bit>
#include <map>
#include <numeric>

#include "sim/base/check.h"
#include "verify/requests/requests.h"

namespace verify {

namespace {

using sim::Operation;

class CallClock {
 public:
  CallClock(KindTraffic& traffic, const Machine& machine) : traffic_(traffic), machine_(machine) {}

  /// The seconds of a call by a rank of a stage.
  double seconds(const ExpectedCall& call, int stage) {
    const KindLinks links = traffic_.links(call.group, stage);
    if (links.size == 1 || call.operation == Operation::recv) return 0;
    const double n = links.size;
    const double bytes = static_cast<double>(call.elements) * static_cast<double>(sim::size_of(call.dtype));
    const double latency = machine_.latency_seconds;
    const double steps = std::bit_width(static_cast<unsigned>(links.size) - 1);
    switch (call.operation) {
      case Operation::send:
        return message(bytes, links.crosses_nodes);
      case Operation::all_reduce:
        return steps * latency + 2 * bytes * (n - 1) / n / ring_rate(links);
      case Operation::reduce_scatter:
      case Operation::all_gather:
        return steps * latency + bytes * (n - 1) / ring_rate(links);
      case Operation::broadcast:
        return steps * latency + bytes / ring_rate(links);
      case Operation::all_to_all:
        return latency + exchange(bytes, links);
      case Operation::all_to_all_uneven:
        return latency + exchange(bytes / n, links);
      default:
        SIM_CHECK(false);
    }
    return 0;
  }
  double message(double bytes, bool crosses_nodes) const {
    return machine_.latency_seconds + bytes / (crosses_nodes ? machine_.bytes_per_second_across_nodes
                                                             : machine_.bytes_per_second_inside_node);
  }

 private:
  /// The seconds in which a rank sends a block of so many bytes to each other one.
  double exchange(double block, const KindLinks& links) const {
    const double n = links.size, on_node = links.crosses_nodes ? links.members_on_node : n;
    return std::max((on_node - 1) * block / machine_.bytes_per_second_inside_node,
                    (n - on_node) * block / machine_.bytes_per_second_across_nodes);
  }
  double ring_rate(const KindLinks& links) const {
    const double inside = machine_.bytes_per_second_inside_node;
    if (!links.crosses_nodes) return inside;
    return std::min(inside, links.members_on_node * machine_.bytes_per_second_across_nodes);
  }

  KindTraffic& traffic_;
  const Machine& machine_;
};

bool is_between_stages(const ExpectedCall& call) {
  return call.group == "pp" && sim::is_point_to_point(call.operation);
}

/// The seconds of a rank's calls. Of ranks that hold other experts, those with the longest calls count,
/// because the others wait for them.
WorkSeconds seconds_of(const std::vector<RepeatedCall>& calls, int stage, CallClock& clock) {
  WorkSeconds of_all, longest;
  std::map<int, WorkSeconds> by_ep_rank;
  for (const auto& [call, times, ep_rank] : calls) {
    if (is_between_stages(call)) continue;
    WorkSeconds& seconds = ep_rank == kAllEpRanks ? of_all : by_ep_rank[ep_rank];
    seconds.calls[traffic_of_kind(call.group)] += static_cast<double>(times) * clock.seconds(call, stage);
  }
  for (const auto& [ep_rank, seconds] : by_ep_rank)
    if (seconds.all() > longest.all()) longest = seconds;
  of_all.add(longest);
  return of_all;
}

/// The seconds of a message from a rank of a stage to the next one; 0 if it sends none.
double seconds_to_next(const RankWork& work, int stage, KindTraffic& traffic, const CallClock& clock) {
  for (const ChunkWork& chunk : work.chunks) {
    for (const auto& [call, times, ep_rank] : chunk.forward.calls) {
      if (!is_between_stages(call) || call.operation != Operation::send) continue;
      const double bytes = static_cast<double>(call.elements) * static_cast<double>(sim::size_of(call.dtype));
      return clock.message(bytes, traffic.of(call, stage).bytes_across > 0);
    }
  }
  return 0;
}

/// The seconds that a rank waits for messages from its first step to its last one, at least. It takes part
/// in a batch with each neighbour in each microbatch; with chunks, in one for each pair of steps. The first
/// message to the rank comes before its first step.
double least_message_seconds(const StepSeconds& step, std::size_t rank) {
  const std::size_t pp = step.ranks.size();
  const auto microbatches = static_cast<double>(step.microbatches);
  if (pp == 1) return 0;
  const double from_previous = step.to_next[(rank + pp - 1) % pp], to_next = step.to_next[rank];
  if (step.is_interleaved) {
    const auto pairs = static_cast<double>(step.ranks[rank].chunks.size()) * microbatches;
    return (pairs - 1) * std::min(from_previous, to_next);
  }
  return (rank + 1 == pp ? 0 : microbatches * to_next) + (rank == 0 ? 0 : (microbatches - 1) * from_previous);
}

}  // namespace

std::size_t traffic_of_kind(std::string_view kind) {
  struct Row {
    std::string_view kind, name;
  };
  if (kind.starts_with("hcp-")) kind = "cp";
  static constexpr Row kRows[] = {
      {"tp", "tp"},    {"tp-cp", "tp"},    {"cp", "cp"},       {"ep", "ep"},    {"etp", "ep"},
      {"tp-ep", "ep"}, {"pp", "pp"},       {"embd", "pp"},     {"dp-cp", "dp"}, {"dp", "dp"},
      {"edp", "dp"},   {"tp-dp-cp", "dp"}, {"tp-ep-pp", "dp"}, {"mp", "dp"},    {"intra-dist-opt", "dp"}};
  const auto row = std::ranges::find(kRows, kind, &Row::kind);
  SIM_CHECK(row != std::end(kRows));
  return static_cast<std::size_t>(std::ranges::find(kTrafficNames, row->name) - kTrafficNames.begin());
}

double WorkSeconds::all() const { return std::accumulate(calls.begin(), calls.end(), compute); }

void WorkSeconds::add(const WorkSeconds& other, double times) {
  compute += times * other.compute;
  for (std::size_t i = 0; i < calls.size(); ++i) calls[i] += times * other.calls[i];
}

StepSeconds step_seconds(const ScenarioRequest& request, const std::vector<RankWork>& work,
                         KindTraffic& traffic, const Machine& machine) {
  CallClock clock(traffic, machine);
  StepSeconds step{.microbatches = microbatches_of_batch(request.batch, request.layout.dp),
                   .is_interleaved = request.schedule && request.schedule->shape.is_interleaved()};
  for (int stage = 0; stage < std::ssize(work); ++stage) {
    const RankWork& own = work[static_cast<std::size_t>(stage)];
    const auto pass_seconds = [&](const PassWork& pass) {
      WorkSeconds seconds = seconds_of(pass.calls, stage, clock);
      seconds.compute = static_cast<double>(pass.multiply_adds) / machine.multiply_adds_per_second;
      if (machine.bytes_per_second_of_memory > 0)
        seconds.compute += static_cast<double>(pass.moved_bytes) / machine.bytes_per_second_of_memory;
      return seconds;
    };
    RankSeconds rank;
    for (const ChunkWork& chunk : own.chunks)
      rank.chunks.push_back({pass_seconds(chunk.forward), pass_seconds(chunk.backward)});
    rank.of_step = seconds_of(own.of_step, stage, clock);
    step.ranks.push_back(std::move(rank));
    step.to_next.push_back(seconds_to_next(own, stage, traffic, clock));
  }
  return step;
}

double least_step_seconds(const StepSeconds& step) {
  double least = 0, before = 0;  // forward, through the stages before this rank
  std::vector<double> ends;      // behind the last backward step of this rank, by the rank that ends the step
  for (std::size_t rank = 0; rank < step.ranks.size(); ++rank) {
    const RankSeconds& own = step.ranks[rank];
    double of_microbatch = 0;
    for (const ChunkSeconds& chunk : own.chunks) of_microbatch += chunk.forward.all() + chunk.backward.all();
    ends.push_back(own.of_step.all());
    least = std::max(least, before + static_cast<double>(step.microbatches) * of_microbatch +
                                least_message_seconds(step, rank) + *std::ranges::max_element(ends));
    before += own.chunks.front().forward.all() + step.to_next[rank];
    for (double& one : ends) one += own.chunks.front().backward.all() + step.to_next[rank];
  }
  return least;
}

}  // namespace verify
