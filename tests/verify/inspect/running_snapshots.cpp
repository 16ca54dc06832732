#include "tests/verify/inspect/running_snapshots.h"

#include <algorithm>
#include <fmt/format.h>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "tests/verify/recordings/examined_run.h"
#include "tests/verify/recordings/test_dump.h"

namespace test {

namespace {

using Json = nlohmann::json;

bool is_message_step_of(const StreamedStep& step) { return step.operation.find(' ') != std::string::npos; }

std::pair<int, int> ends_of_step(const std::string& operation) {
  int first = 0, second = 0;
  if (std::sscanf(operation.c_str(), "send %d->%d", &first, &second) == 2) return {first, second};
  std::sscanf(operation.c_str(), "recv %d<-%d", &first, &second);
  return {second, first};
}

/// When a rank issued a call, and when the call began and ended there.
struct TimedCall {
  std::size_t step = 0;
  std::int64_t issued = 0, begun = -1, ended = -1;
};

/// Computes the times of all calls of a job that ends. Times are in microseconds.
class Clockwork {
 public:
  Clockwork(const StreamedJob& job, std::mt19937& random, bool does_host_wait)
      : job_(job), random_(random), does_host_wait_(does_host_wait), ranks_(job.programs.size()) {
    for (State& state : ranks_) state.slowness = drawn(80, 130);
  }

  std::vector<std::vector<TimedCall>> times() {
    for (bool moves = true; moves;) {
      moves = false;
      for (std::size_t rank = 0; rank < ranks_.size(); ++rank)
        while (take_step(rank)) moves = true;
    }
    std::vector<std::vector<TimedCall>> times;
    for (const State& state : ranks_) times.push_back(state.calls);
    return times;
  }

 private:
  using Stream = std::pair<std::size_t, std::pair<int, int>>;
  struct State {
    std::size_t step = 0;
    std::int64_t host = 0, compute = 0, slowness = 100;
    std::vector<TimedCall> calls;
    std::vector<std::size_t> awaited;  // calls for which the compute stream waits
    std::map<Stream, std::size_t> last;
    std::map<Stream, int> count;
  };

  std::int64_t drawn(std::int64_t from, std::int64_t to) {
    return std::uniform_int_distribution<std::int64_t>(from, to)(random_);
  }

  /// Takes a step of a rank, once the ends for which it waits are known.
  bool take_step(std::size_t rank) {
    State& state = ranks_[rank];
    if (state.step == job_.programs[rank].size()) return false;
    const StreamedStep& step = job_.programs[rank][state.step];
    for (const std::size_t call : state.awaited) {
      if (state.calls[call].ended < 0) return false;
      state.compute = std::max(state.compute, state.calls[call].ended);
    }
    if (state.step > 0 && !state.calls.empty()) {
      const StreamedStep& before = job_.programs[rank][state.step - 1];
      const bool holds =
          before.holds_host || (does_host_wait_ && !before.is_async && !before.operation.empty());
      if (holds && state.calls.back().ended < 0) return false;
      if (holds) state.host = std::max(state.host, state.calls.back().ended);
    }
    const Stream stream(step.group,
                        is_message_step_of(step) ? ends_of_step(step.operation) : std::pair(-1, -1));
    const auto last = state.last.find(stream);
    if (last != state.last.end() && !step.operation.empty() && state.calls[last->second].ended < 0)
      return false;
    state.awaited.clear();
    ++state.step;
    if (step.operation.empty()) {
      for (std::size_t i = 0; i < state.calls.size(); ++i)
        if (job_.programs[rank][state.calls[i].step].group == step.group) state.awaited.push_back(i);
      return true;
    }
    issue(rank, step, stream);
    return true;
  }

  void issue(std::size_t rank, const StreamedStep& step, const Stream& stream) {
    State& state = ranks_[rank];
    const auto last = state.last.find(stream);
    state.host += drawn(20, 60);
    state.compute = std::max(state.compute, state.host) + drawn(50, 400) * state.slowness / 100;
    TimedCall call{.step = state.step - 1, .issued = does_host_wait_ ? state.compute : state.host};
    if (does_host_wait_) state.host = state.compute;
    call.begun = std::max(state.compute, last == state.last.end() ? 0 : state.calls[last->second].ended);
    const std::size_t own = state.calls.size();
    state.calls.push_back(call);
    state.last[stream] = own;
    if (!step.is_async) state.awaited.push_back(own);
    meet({stream, state.count[stream]++}, rank, own);
  }

  /// A call ends on all members once all have begun it.
  void meet(const std::pair<Stream, int>& meeting, std::size_t rank, std::size_t call) {
    auto& there = meetings_[meeting];
    there.emplace_back(rank, call);
    const auto& [group, ends] = meeting.first;
    const std::size_t members = ends.first < 0 ? job_.groups[group].ranks.size() : 2;
    if (there.size() < members) return;
    std::int64_t begun = 0;
    for (const auto& [member, own] : there) begun = std::max(begun, ranks_[member].calls[own].begun);
    const std::int64_t ended = begun + drawn(30, 500);
    for (const auto& [member, own] : there) ranks_[member].calls[own].ended = ended + drawn(0, 20);
  }

  const StreamedJob& job_;
  std::mt19937& random_;
  bool does_host_wait_;
  std::vector<State> ranks_;
  std::map<std::pair<Stream, int>, std::vector<std::pair<std::size_t, std::size_t>>> meetings_;
};

TrainingSizes drawn_sizes(std::mt19937& random, int microbatches) {
  const auto one_of = [&](std::vector<int> sizes) { return sizes[random() % sizes.size()]; };
  TrainingSizes sizes{.tp = one_of({1, 2, 4}), .dp = one_of({1, 2, 4}), .pp = one_of({1, 2, 4})};
  if (sizes.ranks() < 4) sizes.dp *= 4;
  sizes.ep = one_of({1, sizes.tp * sizes.dp});
  sizes.microbatches = microbatches;
  sizes.steps = 8;
  return sizes;
}

/// Draws when each rank writes its dump: within a few steps, as files are written one after the other.
std::vector<std::int64_t> drawn_moments(const std::vector<std::vector<TimedCall>>& times,
                                        std::mt19937& random) {
  std::int64_t end = 0;
  for (const TimedCall& call : times.front()) end = std::max(end, call.ended);
  const std::int64_t spread = end / std::vector<std::int64_t>{2, 3, 4}[random() % 3];
  const std::int64_t first =
      std::uniform_int_distribution<std::int64_t>(end / 8, end - end / 8 - spread)(random);
  std::vector<std::int64_t> moments;
  const auto ranks = static_cast<std::int64_t>(times.size());
  for (std::int64_t rank = 0; rank < ranks; ++rank) moments.push_back(first + spread * rank / (ranks - 1));
  std::shuffle(moments.begin(), moments.end(), random);
  return moments;
}

}  // namespace

verify::Recordings running_nccl_job(std::uint32_t seed) {
  std::mt19937 random(seed);
  const TrainingSizes sizes = drawn_sizes(random, 1 + static_cast<int>(random() % 4));
  const StreamedJob job = streamed_training(sizes, true, random() % 2 == 0);
  const std::vector<std::vector<TimedCall>> times = Clockwork(job, random, false).times();
  const std::vector<std::int64_t> moments = drawn_moments(times, random);
  const std::int64_t watchdog =
      random() % 2 == 0 ? 0 : 1000;  // how late a rank may see that a call has ended
  StreamedHang snapshot;
  for (std::size_t rank = 0; rank < times.size(); ++rank) {
    auto& issued = snapshot.issued.emplace_back();
    auto& ended = snapshot.is_ended.emplace_back();
    auto& begun = snapshot.is_begun.emplace_back();
    for (const TimedCall& call : times[rank]) {
      if (call.issued > moments[rank]) break;
      const auto late =
          watchdog == 0 ? 0 : static_cast<std::int64_t>(random() % static_cast<std::uint32_t>(watchdog));
      issued.push_back(call.step);
      ended.push_back(call.ended + late <= moments[rank]);
      begun.push_back(call.begun <= moments[rank]);
    }
  }
  const DumpedView view{.has_timing = random() % 2 == 0, .most_calls = random() % 3 == 0 ? 30 : 1'000'000};
  return read_dumps(dumps_of(job, snapshot, view));
}

verify::Recordings running_gloo_job(std::uint32_t seed) {
  std::mt19937 random(seed);
  const TrainingSizes sizes = drawn_sizes(random, 2);
  const StreamedJob job = streamed_training(sizes, true, false);
  const std::vector<std::vector<TimedCall>> times = Clockwork(job, random, true).times();
  const std::vector<std::int64_t> moments = drawn_moments(times, random);
  verify::Recordings recordings;
  verify::SharedRanks lists;
  verify::ValueTree tree;
  for (std::size_t rank = 0; rank < times.size(); ++rank) {
    TestDump dump{.rank = static_cast<int>(rank)};
    std::vector<std::size_t> own(job.groups.size());
    for (std::size_t i = 0; i < job.groups.size(); ++i) {
      own[i] = dump.groups.size();
      const std::vector<int>& ranks = job.groups[i].ranks;
      if (std::ranges::find(ranks, dump.rank) != ranks.end())
        dump.groups.push_back({std::to_string(i), job.groups[i].description, ranks});
    }
    std::vector<std::int64_t> sequences(dump.groups.size());
    for (const TimedCall& call : times[rank]) {
      const StreamedStep& step = job.programs[rank][call.step];
      if (call.issued > moments[rank]) break;
      if (is_message_step_of(step)) continue;  // gloo's recorder has none
      const bool has_ended = call.ended <= moments[rank];
      dump.calls.push_back({.group = own[step.group],
                            .operation = "gloo:" + step.operation,
                            .sequence = ++sequences[own[step.group]],
                            .elements = step.elements,
                            .state = has_ended ? "completed" : "scheduled",
                            .is_retired = has_ended});
    }
    Json document = Json::parse(json_of(dump));
    document["pg_config"] = {{"", {{"name", ""}, {"desc", ""}, {"ranks", "[0, 1]"}}}};
    for (Json& entry : document["entries"])
      entry["state"] = "scheduled", entry["time_discovered_completed_ns"] = nullptr;
    recordings.ranks.push_back(*verify::recording_of(document.dump(), "dump", lists, tree));
    recordings.ranks.back().rank = dump.rank;
  }
  return recordings;
}

}  // namespace test
