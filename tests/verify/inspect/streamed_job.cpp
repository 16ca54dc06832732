#include "tests/verify/inspect/streamed_job.h"

#include <algorithm>
#include <cstdio>
#include <fmt/format.h>
#include <map>
#include <tuple>
#include <utility>

namespace test {

namespace {

constexpr std::int64_t kFirstTime = 1'000'000'000'000;

bool is_message_step(const std::string& operation) { return operation.find(' ') != std::string::npos; }

/// The sender and the receiver of a message: positions in its group.
std::pair<int, int> ends_of_message(const std::string& operation) {
  int first = 0, second = 0;
  if (std::sscanf(operation.c_str(), "send %d->%d", &first, &second) == 2) return {first, second};
  std::sscanf(operation.c_str(), "recv %d<-%d", &first, &second);
  return {second, first};
}

/// A call as its members meet in it: the group, the ends of a message, and its number among those.
using Meeting = std::tuple<std::size_t, std::pair<int, int>, int>;

class StreamPlayer {
 public:
  explicit StreamPlayer(const StreamedJob& job) : job_(job), ranks_(job.programs.size()) {}

  StreamedHang play() {
    for (bool moves = true; moves;) {
      moves = false;
      for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
        while (take_step(rank)) moves = true;
      }
      for (std::size_t rank = 0; rank < ranks_.size(); ++rank) moves = begin_calls(rank) || moves;
      moves = end_meetings() || moves;
    }
    return hang();
  }

 private:
  struct Call {
    std::size_t step;
    std::size_t group;
    Meeting meeting;
    std::size_t needed;  // of the compute stream's waits
    std::size_t before;  // in its stream; its own number without one
    bool has_begun = false, has_ended = false;
  };
  struct State {
    std::size_t step = 0;
    std::vector<Call> calls;
    std::vector<std::size_t> waits;  // calls for which the compute stream waits
    std::size_t waits_over = 0;
    std::size_t first_open = 0;  // all calls before it have ended
    std::map<std::pair<std::size_t, std::pair<int, int>>, int> count;
    std::map<std::pair<std::size_t, std::pair<int, int>>, std::size_t> last;  // by stream
  };

  static bool is_at(const std::vector<int>& faults, std::size_t rank, std::size_t now) {
    return rank < faults.size() && faults[rank] >= 0 && now >= static_cast<std::size_t>(faults[rank]);
  }

  bool take_step(std::size_t rank) {
    State& state = ranks_[rank];
    const std::vector<StreamedStep>& program = job_.programs[rank];
    if (state.step == program.size() || is_at(job_.host_stops_at, rank, state.step)) return false;
    if (state.step > 0 && program[state.step - 1].holds_host && !state.calls.empty() &&
        !state.calls.back().has_ended)
      return false;
    const StreamedStep& step = program[state.step];
    if (step.operation.empty()) {
      for (std::size_t i = 0; i < state.calls.size(); ++i) {
        if (state.calls[i].group == step.group) state.waits.push_back(i);
      }
    } else {
      issue(state, step);
    }
    ++state.step;
    return true;
  }

  void issue(State& state, const StreamedStep& step) {
    const std::pair<int, int> ends =
        is_message_step(step.operation) ? ends_of_message(step.operation) : std::pair(-1, -1);
    const std::pair stream(step.group, ends);
    const std::size_t own = state.calls.size();
    const auto [last, is_first] = state.last.try_emplace(stream, own);
    state.calls.push_back({.step = state.step,
                           .group = step.group,
                           .meeting = {step.group, ends, state.count[stream]++},
                           .needed = state.waits.size(),
                           .before = is_first ? own : last->second});
    last->second = own;
    if (!step.is_async) state.waits.push_back(own);
  }

  bool begin_calls(std::size_t rank) {
    State& state = ranks_[rank];
    bool moves = false;
    while (state.waits_over < state.waits.size() && state.calls[state.waits[state.waits_over]].has_ended)
      ++state.waits_over;
    while (state.first_open < state.calls.size() && state.calls[state.first_open].has_ended)
      ++state.first_open;
    for (std::size_t i = state.first_open; i < state.calls.size(); ++i) {
      Call& call = state.calls[i];
      if (call.has_begun || call.needed > state.waits_over || is_at(job_.device_stops_at, rank, i)) continue;
      if (call.before != i && !state.calls[call.before].has_ended) continue;
      call.has_begun = moves = true;
      meetings_[call.meeting].emplace_back(rank, i);
    }
    return moves;
  }

  const StreamedStep& step_of(const std::pair<std::size_t, std::size_t>& place) const {
    return job_.programs[place.first][ranks_[place.first].calls[place.second].step];
  }

  bool end_meetings() {
    bool moves = false;
    for (auto& [meeting, there] : meetings_) {
      const bool is_message = std::get<1>(meeting).first >= 0;
      const std::size_t members = is_message ? 2 : job_.groups[std::get<0>(meeting)].ranks.size();
      const bool is_whole = there.size() == members && agree(there, is_message);
      for (const auto& place : there) {
        Call& call = ranks_[place.first].calls[place.second];
        const bool is_eager = job_.has_eager_sends && step_of(place).operation.starts_with("send");
        if (call.has_ended || !(is_whole || is_eager)) continue;
        call.has_ended = moves = true;
      }
    }
    std::erase_if(meetings_, [&](const auto& entry) {
      const bool is_message = std::get<1>(entry.first).first >= 0;
      const std::size_t members = is_message ? 2 : job_.groups[std::get<0>(entry.first)].ranks.size();
      return entry.second.size() == members &&
             std::all_of(entry.second.begin(), entry.second.end(), [&](const auto& place) {
               return ranks_[place.first].calls[place.second].has_ended;
             });
    });
    return moves;
  }

  bool agree(const std::vector<std::pair<std::size_t, std::size_t>>& there, bool is_message) const {
    const StreamedStep& first = step_of(there.front());
    return std::all_of(there.begin(), there.end(), [&](const auto& place) {
      const StreamedStep& step = step_of(place);
      return (is_message || step.operation == first.operation) && step.dtype == first.dtype &&
             (step.elements == first.elements || step.operation == "all_to_all");
    });
  }

  StreamedHang hang() const {
    StreamedHang hang;
    hang.all_ended = true;
    std::map<Meeting, std::vector<std::size_t>> issuers;  // of calls that are pending somewhere
    hang.is_missed.resize(ranks_.size());
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
      auto& issued = hang.issued.emplace_back();
      auto& ended = hang.is_ended.emplace_back();
      auto& begun = hang.is_begun.emplace_back();
      for (std::size_t i = 0; i < ranks_[rank].calls.size(); ++i) {
        const Call& call = ranks_[rank].calls[i];
        issued.push_back(call.step);
        ended.push_back(call.has_ended && !is_at(job_.device_is_silent_from, rank, i));
        begun.push_back(call.has_begun);
        hang.all_ended = hang.all_ended && call.has_ended;
      }
      hang.all_ended = hang.all_ended && ranks_[rank].step == job_.programs[rank].size();
    }
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
      for (const Call& call : ranks_[rank].calls) {
        if (!call.has_ended) issuers[call.meeting].push_back(rank);
      }
    }
    for (const auto& [meeting, there] : issuers) {
      const std::vector<int>& members = job_.groups[std::get<0>(meeting)].ranks;
      const auto [from, to] = std::get<1>(meeting);
      for (std::size_t place = 0; place < members.size(); ++place) {
        const auto rank = static_cast<std::size_t>(members[place]);
        const bool takes_part = from < 0 || from == static_cast<int>(place) || to == static_cast<int>(place);
        if (takes_part && !has_issued(rank, meeting)) hang.is_missed[rank] = true;
      }
    }
    return hang;
  }

  bool has_issued(std::size_t rank, const Meeting& meeting) const {
    const auto found = ranks_[rank].count.find({std::get<0>(meeting), std::get<1>(meeting)});
    return found != ranks_[rank].count.end() && found->second > std::get<2>(meeting);
  }

  const StreamedJob& job_;
  std::vector<State> ranks_;
  std::map<Meeting, std::vector<std::pair<std::size_t, std::size_t>>> meetings_;
};

/// The groups of a training, and what a rank needs of them.
class TrainingPlan {
 public:
  TrainingPlan(const TrainingSizes& sizes, bool sends_are_async, bool experts_hold_host)
      : sizes_(sizes), sends_are_async_(sends_are_async), experts_hold_host_(experts_hold_host) {
    add_groups();
    for (int rank = 0; rank < sizes.ranks(); ++rank) job_.programs.push_back(program_of(rank));
    const auto ranks = static_cast<std::size_t>(sizes.ranks());
    job_.host_stops_at.assign(ranks, -1);
    job_.device_stops_at.assign(ranks, -1);
    job_.device_is_silent_from.assign(ranks, -1);
  }
  StreamedJob take() { return std::move(job_); }

 private:
  /// Ranks are numbered by tp, then dp, then pp.
  template <typename KeyOf>
  void add_kind(const char* kind, const char* description, const KeyOf& key_of) {
    std::map<int, std::vector<int>> groups;
    for (int rank = 0; rank < sizes_.ranks(); ++rank) groups[key_of(rank)].push_back(rank);
    for (auto& [key, ranks] : groups) {
      for (const int rank : ranks) group_of_[{kind, rank}] = job_.groups.size();
      job_.groups.push_back({description, std::move(ranks)});
    }
  }

  void add_groups() {
    const int tp = sizes_.tp, stage = sizes_.tp * sizes_.dp;
    add_kind("world", "default_pg", [](int) { return 0; });
    add_kind("dp", "DATA_PARALLEL_GROUP_WITH_CP", [=](int rank) { return rank % tp + rank / stage * tp; });
    add_kind("mp", "MODEL_PARALLEL_GROUP", [=](int rank) { return rank % stage / tp; });
    add_kind("tp", "TENSOR_MODEL_PARALLEL_GROUP", [=](int rank) { return rank / tp; });
    add_kind("pp", "PIPELINE_MODEL_PARALLEL_GROUP", [=](int rank) { return rank % stage; });
    add_kind("ep", "EXPERT_MODEL_PARALLEL_GROUP", [=, ep = sizes_.ep](int rank) { return rank / ep; });
  }

  std::size_t group(const char* kind, int rank) const { return group_of_.at({kind, rank}); }

  std::vector<StreamedStep> program_of(int rank) {
    program_.clear();
    const int stage = rank / (sizes_.tp * sizes_.dp);
    const int warmup = std::min(sizes_.pp - 1 - stage, sizes_.microbatches);
    for (int step = 0; step < sizes_.steps; ++step) {
      for (int i = 0; i < warmup; ++i) forward(rank, stage);
      for (int i = warmup; i < sizes_.microbatches; ++i) {
        forward(rank, stage);
        backward(rank, stage);
      }
      for (int i = 0; i < warmup; ++i) backward(rank, stage);
      program_.push_back({.group = group("dp", rank),
                          .operation = "_reduce_scatter_base",
                          .elements = 4096,
                          .dtype = "Float",
                          .is_async = true});
      program_.push_back({.group = group("dp", rank)});
      program_.push_back({.group = group("mp", rank),
                          .operation = "all_reduce",
                          .elements = 1,
                          .dtype = "Float",
                          .holds_host = true});
      program_.push_back(
          {.group = group("dp", rank), .operation = "_all_gather_base", .elements = 4096, .is_async = true});
    }
    program_.push_back(
        {.group = group("world", rank), .operation = "all_reduce", .elements = 1, .dtype = "Long"});
    return program_;
  }

  void message(int rank, const char* form, int stage, int peer) {
    const bool sends = form[0] == 's';
    program_.push_back({.group = group("pp", rank),
                        .operation = fmt::format(fmt::runtime(form), stage, peer),
                        .is_async = sends && sends_are_async_});
  }

  void layer(int rank, const char* first, const char* second) {
    program_.push_back({.group = group("tp", rank), .operation = first});
    if (sizes_.ep > 1) {
      program_.push_back({.group = group("ep", rank),
                          .operation = "all_to_all",
                          .elements = 60 + rank,
                          .holds_host = experts_hold_host_});
      program_.push_back({.group = group("ep", rank), .operation = "all_to_all", .elements = 60 + rank});
    }
    program_.push_back({.group = group("tp", rank), .operation = second});
  }

  void forward(int rank, int stage) {
    if (stage > 0) message(rank, "recv {}<-{}", stage, stage - 1);
    layer(rank, "_all_gather_base", "_reduce_scatter_base");
    if (stage + 1 < sizes_.pp) message(rank, "send {}->{}", stage, stage + 1);
  }

  void backward(int rank, int stage) {
    if (stage + 1 < sizes_.pp) message(rank, "recv {}<-{}", stage, stage + 1);
    layer(rank, "_reduce_scatter_base", "all_reduce");
    if (stage > 0) message(rank, "send {}->{}", stage, stage - 1);
  }

  TrainingSizes sizes_;
  bool sends_are_async_, experts_hold_host_;
  StreamedJob job_;
  std::map<std::pair<std::string, int>, std::size_t> group_of_;
  std::vector<StreamedStep> program_;
};

verify::RankDump dump_of(const StreamedJob& job, const StreamedHang& hang, const DumpedView& view, int rank) {
  const auto index = static_cast<std::size_t>(rank);
  verify::RankDump dump;
  dump.rank = rank;
  std::vector<std::size_t> own(job.groups.size());
  for (std::size_t i = 0; i < job.groups.size(); ++i) {
    const StreamedGroup& group = job.groups[i];
    if (std::find(group.ranks.begin(), group.ranks.end(), rank) == group.ranks.end()) continue;
    own[i] = dump.groups.size();
    dump.groups.push_back({.number = static_cast<int>(dump.groups.size()),
                           .name = std::to_string(i),
                           .description = group.description,
                           .ranks = verify::listed_ranks(group.ranks)});
  }
  std::vector<std::int64_t> collectives(dump.groups.size()), messages(dump.groups.size());
  for (std::size_t i = 0; i < hang.issued[index].size(); ++i) {
    const StreamedStep& step = job.programs[index][hang.issued[index][i]];
    verify::FlightCall call;
    call.record_id = static_cast<std::int64_t>(i);
    call.group = own[step.group];
    call.is_p2p = is_message_step(step.operation);
    ++(call.is_p2p ? messages : collectives)[call.group];
    call.collective_seq_id = collectives[call.group];
    call.p2p_seq_id = messages[call.group];
    call.op_id = call.collective_seq_id + call.p2p_seq_id;
    call.profiling_name = "nccl:" + step.operation;
    call.input_sizes = call.output_sizes = {{step.elements}};
    call.input_dtype = call.output_dtype = step.dtype;
    call.created_ns = kFirstTime + call.record_id;
    const bool has_ended = hang.is_ended[index][i];
    if (view.has_timing && hang.is_begun[index][i]) call.started_ns = call.created_ns + 1;
    if (has_ended) call.completed_ns = call.created_ns + 2;
    verify::FlightGroup& group = dump.groups[call.group];
    group.last_enqueued = call.is_p2p ? call.p2p_seq_id : call.collective_seq_id;
    if (call.started_ns) group.last_started = group.last_enqueued;
    if (has_ended) group.last_completed = group.last_enqueued;
    if (!view.is_active_only || !has_ended) dump.calls.push_back(std::move(call));
  }
  const std::int64_t lost = std::max<std::int64_t>(0, std::ssize(dump.calls) - view.most_calls);
  dump.calls.erase(dump.calls.begin(), dump.calls.begin() + lost);
  return dump;
}

}  // namespace

StreamedJob streamed_training(const TrainingSizes& sizes, bool sends_are_async, bool experts_hold_host) {
  return TrainingPlan(sizes, sends_are_async, experts_hold_host).take();
}

StreamedHang hang_of(const StreamedJob& job) { return StreamPlayer(job).play(); }

std::vector<verify::RankDump> dumps_of(const StreamedJob& job, const StreamedHang& hang,
                                       const DumpedView& view) {
  std::vector<verify::RankDump> dumps;
  for (int rank = 0; rank < std::ssize(job.programs); ++rank) dumps.push_back(dump_of(job, hang, view, rank));
  return dumps;
}

}  // namespace test
