#include "tests/verify/inspect/hung_job.h"

#include <algorithm>
#include <cstdio>
#include <fmt/format.h>
#include <map>
#include <utility>

namespace test {

namespace {

/// The position of a rank in a group.
int position_of(const DumpedTestGroup& group, int rank) {
  return static_cast<int>(std::find(group.ranks.begin(), group.ranks.end(), rank) - group.ranks.begin());
}

bool is_message(const std::string& operation) { return operation.find(' ') != std::string::npos; }

/// "send 0->1" and "recv 1<-0" are one message: the key has the sender and the receiver.
std::pair<int, int> ends_of(const std::string& operation) {
  int first = 0, second = 0;
  if (std::sscanf(operation.c_str(), "send %d->%d", &first, &second) == 2) return {first, second};
  std::sscanf(operation.c_str(), "recv %d<-%d", &first, &second);
  return {second, first};
}

class Player {
 public:
  explicit Player(const HungJob& job) : job_(job) {
    const std::size_t world = job.programs.size();
    hang_.issued.resize(world);
    first_open_.resize(world);
    for (std::size_t rank = 0; rank < world; ++rank) {
      hang_.is_completed.emplace_back(job.programs[rank].size());
      number_calls(rank);
    }
  }

  Hang play() {
    for (bool moves = true; moves;) {
      moves = false;
      for (std::size_t rank = 0; rank < hang_.issued.size(); ++rank) moves = issue(rank) || moves;
      for (std::size_t rank = 0; rank < hang_.issued.size(); ++rank) moves = complete(rank) || moves;
    }
    find_idle();
    return std::move(hang_);
  }

 private:
  /// A call of the job: the group, the sender and receiver of a message, and its number among those.
  struct Meeting {
    std::size_t group;
    std::pair<int, int> ends;  // {-1, -1} of a collective
    int number;
    auto operator<=>(const Meeting&) const = default;
  };

  void number_calls(std::size_t rank) {
    std::map<std::pair<std::size_t, std::pair<int, int>>, int> count;
    for (const ProgramCall& call : job_.programs[rank]) {
      const std::pair<int, int> ends =
          is_message(call.operation) ? ends_of(call.operation) : std::pair(-1, -1);
      const Meeting meeting{call.group, ends, count[{call.group, ends}]++};
      index_[rank].push_back(meeting);
    }
  }

  bool is_stopped(std::size_t rank) const {
    return job_.stops_at[rank] >= 0 && hang_.issued[rank] >= static_cast<std::size_t>(job_.stops_at[rank]);
  }

  bool issue(std::size_t rank) {
    const bool has_room = hang_.issued[rank] - first_open_[rank] < static_cast<std::size_t>(job_.run_ahead);
    if (is_stopped(rank) || !has_room || hang_.issued[rank] == job_.programs[rank].size()) return false;
    ++hang_.issued[rank];
    return true;
  }

  std::vector<int> members_of(const Meeting& meeting) const {
    const std::vector<int>& ranks = job_.groups[meeting.group].ranks;
    if (meeting.ends.first < 0) return ranks;
    return {ranks[static_cast<std::size_t>(meeting.ends.first)],
            ranks[static_cast<std::size_t>(meeting.ends.second)]};
  }

  /// Ends the oldest open call of a rank if it is the oldest open call of all of its members.
  bool complete(std::size_t rank) {
    if (first_open_[rank] == hang_.issued[rank]) return false;
    const Meeting meeting = index_[rank][first_open_[rank]];
    for (const int member : members_of(meeting)) {
      const auto other = static_cast<std::size_t>(member);
      if (first_open_[other] == hang_.issued[other] || index_[other][first_open_[other]] != meeting)
        return false;
    }
    for (const int member : members_of(meeting)) {
      const auto other = static_cast<std::size_t>(member);
      hang_.is_completed[other][first_open_[other]++] = true;
    }
    return true;
  }

  void find_idle() {
    hang_.all_ended = true;
    for (std::size_t rank = 0; rank < hang_.issued.size(); ++rank) {
      if (first_open_[rank] < job_.programs[rank].size()) hang_.all_ended = false;
      if (first_open_[rank] == hang_.issued[rank] && is_awaited(rank))
        hang_.idle_and_awaited.push_back(static_cast<int>(rank));
    }
  }

  bool is_awaited(std::size_t rank) const {
    for (std::size_t other = 0; other < hang_.issued.size(); ++other) {
      if (first_open_[other] == hang_.issued[other]) continue;
      const std::vector<int> members = members_of(index_.at(other)[first_open_[other]]);
      if (std::find(members.begin(), members.end(), static_cast<int>(rank)) != members.end()) return true;
    }
    return false;
  }

  const HungJob& job_;
  Hang hang_;
  std::vector<std::size_t> first_open_;
  std::map<std::size_t, std::vector<Meeting>> index_;
};

}  // namespace

Hang hang_of(const HungJob& job) { return Player(job).play(); }

HungJob training(int tp, int dp, int pp, int steps) {
  HungJob job;
  const auto rank_of = [&](int t, int d, int p) { return t + tp * (d + dp * p); };
  const int world = tp * dp * pp;
  job.programs.resize(static_cast<std::size_t>(world));
  job.stops_at.assign(static_cast<std::size_t>(world), -1);
  std::vector<int> all;
  for (int rank = 0; rank < world; ++rank) all.push_back(rank);
  job.groups.push_back({"0", "default_pg", all});
  std::map<std::pair<int, int>, std::size_t> tp_groups, dp_groups, pp_groups;  // by the other two coordinates
  const auto add = [&](const char* description, std::vector<int> ranks) {
    job.groups.push_back({std::to_string(job.groups.size()), description, std::move(ranks)});
    return job.groups.size() - 1;
  };
  for (int p = 0; p < pp; ++p) {
    for (int t = 0; t < tp; ++t) {
      std::vector<int> ranks;
      for (int d = 0; d < dp; ++d) ranks.push_back(rank_of(t, d, p));
      dp_groups[{t, p}] = add("DATA_PARALLEL_GROUP_WITH_CP", ranks);
    }
  }
  for (int p = 0; p < pp; ++p) {
    for (int d = 0; d < dp; ++d) {
      std::vector<int> ranks;
      for (int t = 0; t < tp; ++t) ranks.push_back(rank_of(t, d, p));
      tp_groups[{d, p}] = add("TENSOR_MODEL_PARALLEL_GROUP", ranks);
    }
  }
  for (int d = 0; d < dp; ++d) {
    for (int t = 0; t < tp; ++t) {
      std::vector<int> ranks;
      for (int p = 0; p < pp; ++p) ranks.push_back(rank_of(t, d, p));
      pp_groups[{t, d}] = add("PIPELINE_MODEL_PARALLEL_GROUP", ranks);
    }
  }
  for (int t = 0; t < tp; ++t) {
    for (int d = 0; d < dp; ++d) {
      for (int p = 0; p < pp; ++p) {
        std::vector<ProgramCall>& program = job.programs[static_cast<std::size_t>(rank_of(t, d, p))];
        const std::size_t pipe = pp_groups[{t, d}];
        const auto message = [&](const char* form, int peer) {
          program.push_back({pipe, fmt::format(fmt::runtime(form), p, peer), 64});
        };
        for (int step = 0; step < steps; ++step) {
          if (p > 0) message("recv {}<-{}", p - 1);
          program.push_back({tp_groups[{d, p}], "all_reduce", 64});
          if (p + 1 < pp) message("send {}->{}", p + 1);
          if (p + 1 < pp) message("recv {}<-{}", p + 1);
          program.push_back({tp_groups[{d, p}], "_all_gather_base", 32});
          if (p > 0) message("send {}->{}", p - 1);
        }
        program.push_back({dp_groups[{t, p}], "all_reduce", 1000});
        program.push_back({0, "all_reduce", 1});
      }
    }
  }
  return job;
}

std::vector<TestDump> dumps_of(const HungJob& job, const Hang& hang) {
  std::vector<TestDump> dumps;
  for (std::size_t rank = 0; rank < job.programs.size(); ++rank) {
    TestDump dump;
    dump.rank = static_cast<int>(rank);
    std::vector<std::size_t> own(job.groups.size());
    for (std::size_t i = 0; i < job.groups.size(); ++i) {
      const DumpedTestGroup& group = job.groups[i];
      own[i] = dump.groups.size();
      if (position_of(group, dump.rank) < std::ssize(group.ranks)) dump.groups.push_back(group);
    }
    std::vector<std::int64_t> collectives(job.groups.size()), messages(job.groups.size());
    for (std::size_t i = 0; i < hang.issued[rank]; ++i) {
      const ProgramCall& call = job.programs[rank][i];
      (is_message(call.operation) ? messages : collectives)[call.group]++;
      dump.calls.push_back({.group = own[call.group],
                            .operation = "nccl:" + call.operation,
                            .sequence = collectives[call.group],
                            .p2p_sequence = messages[call.group],
                            .elements = call.elements,
                            .state = hang.is_completed[rank][i] ? "completed" : "scheduled"});
    }
    dumps.push_back(std::move(dump));
  }
  return dumps;
}

verify::Recordings recordings_of(const std::vector<TestDump>& dumps, bool as_pickle) {
  verify::Recordings recordings;
  verify::SharedRanks lists;
  verify::ValueTree tree;
  for (const TestDump& dump : dumps) {
    const std::string name = "dump_" + std::to_string(dump.rank);
    recordings.ranks.push_back(
        *verify::recording_of(as_pickle ? pickle_of(dump) : json_of(dump), name, lists, tree));
    recordings.ranks.back().rank = dump.rank;
  }
  return recordings;
}

}  // namespace test
