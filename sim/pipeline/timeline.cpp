#include "sim/pipeline/timeline.h"

#include <algorithm>
#include <deque>
#include <fmt/format.h>
#include <map>
#include <utility>

#include "sim/base/check.h"
#include "sim/base/error.h"

namespace sim {

namespace {

constexpr std::int64_t kHighestCost = 1000;

/// A send that waits for its recv, or a recv that waits for its send.
struct Posted {
  int rank = 0;
  Message message;
  std::int64_t time = 0;
};

/// The messages from one rank to another that wait. At most one of the two queues is not empty.
struct Channel {
  std::deque<Posted> sends;
  std::deque<Posted> recvs;
};

struct RankProgress {
  std::size_t next = 0;  // the number of the next action
  std::int64_t now = 0;
  int open = 0;  // messages of the batch that have not been paired yet
  bool in_batch = false;
  std::int64_t batch_end = 0;  // the latest end of the messages paired so far
};

[[noreturn]] void fault(const char* code, std::string numbers, const char* rule, const char* hint) {
  refuse({.code = code,
          .option = "pipeline schedule",
          .numbers = std::move(numbers),
          .rule = rule,
          .hint = hint});
}

class Clockwork {
 public:
  Clockwork(const PipelineSchedule& schedule, const StepCost& cost)
      : schedule_(schedule), cost_(cost), progress_(schedule.ranks.size()) {
    result_.ranks.resize(schedule.ranks.size());
  }

  Timeline run() {
    for (int rank = 0; rank < std::ssize(progress_); ++rank) ready_.push_back(rank);
    while (!ready_.empty()) {
      const int rank = ready_.front();
      ready_.pop_front();
      advance(rank);
    }
    for (int rank = 0; rank < std::ssize(progress_); ++rank) {
      if (!is_done(rank)) explain_wait(rank);
    }
    const std::int64_t of_both = cost_.forward + (schedule_.shape.forward_only ? 0 : cost_.backward);
    result_.work = schedule_.shape.forward_steps() * of_both;
    return std::move(result_);
  }

 private:
  RankProgress& progress_of(int rank) { return progress_[static_cast<std::size_t>(rank)]; }
  const std::vector<Action>& actions(int rank) const {
    return schedule_.ranks[static_cast<std::size_t>(rank)].actions;
  }
  bool is_done(int rank) { return progress_of(rank).next == actions(rank).size(); }

  /// Advances a rank until it must wait for another one, or is done.
  void advance(int rank) {
    RankProgress& own = progress_of(rank);
    while (own.next < actions(rank).size()) {
      const Action& action = actions(rank)[own.next];
      if (action.step) {
        compute(rank, *action.step);
      } else if (!own.in_batch) {
        post_all(rank, action.messages);
        continue;
      } else if (own.open > 0) {
        return;
      } else {
        own.now = own.batch_end;
        own.in_batch = false;
      }
      ++own.next;
    }
  }

  void compute(int rank, const Step& step) {
    RankProgress& own = progress_of(rank);
    const std::int64_t begin = own.now;
    own.now += step.pass == Pass::forward ? cost_.forward : cost_.backward;
    result_.ranks[static_cast<std::size_t>(rank)].push_back({step, begin, own.now});
    result_.length = std::max(result_.length, own.now);
  }

  void post_all(int rank, const std::vector<Message>& messages) {
    RankProgress& own = progress_of(rank);
    own.in_batch = true;
    own.open = static_cast<int>(messages.size());
    own.batch_end = own.now;
    for (const Message& message : messages) post({rank, message, own.now});
  }

  void post(const Posted& posted) {
    const int peer = posted.message.peer;
    const bool is_send = posted.message.is_send;
    Channel& channel = channels_[is_send ? std::pair(posted.rank, peer) : std::pair(peer, posted.rank)];
    std::deque<Posted>& others = is_send ? channel.recvs : channel.sends;
    if (others.empty()) {
      (is_send ? channel.sends : channel.recvs).push_back(posted);
      return;
    }
    meet(posted, others.front());
    others.pop_front();
  }

  void meet(const Posted& here, const Posted& there) {
    if (here.message.input != there.message.input) {
      fault("message_mismatch",
            fmt::format("rank {}: {}; rank {}: {}", here.rank, text_of(here.message), there.rank,
                        text_of(there.message)),
            "between two ranks, the first send pairs with the first recv",
            "put activations and gradients in the same order on both ranks");
    }
    const std::int64_t time = std::max(here.time, there.time);
    for (const int rank : {here.rank, there.rank}) {
      RankProgress& side = progress_of(rank);
      side.batch_end = std::max(side.batch_end, time);
      if (--side.open == 0 && rank != here.rank) ready_.push_back(rank);
    }
  }

  bool is_waiting(int rank, const Message& message) const {
    const auto ends = message.is_send ? std::pair(rank, message.peer) : std::pair(message.peer, rank);
    const auto channel = channels_.find(ends);
    if (channel == channels_.end()) return false;
    const std::deque<Posted>& side = message.is_send ? channel->second.sends : channel->second.recvs;
    return std::any_of(side.begin(), side.end(),
                       [&](const Posted& posted) { return posted.message == message; });
  }

  /// Returns the first message of the rank's batch that still waits.
  const Message& waiting_message(int rank) {
    const std::vector<Message>& batch = actions(rank)[progress_of(rank).next].messages;
    const auto waiting = std::find_if(batch.begin(), batch.end(),
                                      [&](const Message& message) { return is_waiting(rank, message); });
    CHECK(waiting != batch.end());
    return *waiting;
  }

  /// Refuses the schedule with the reason why a rank waits. It follows the waits from rank to rank, until
  /// it meets a rank again (a cycle) or one that is done (an unmatched message).
  [[noreturn]] void explain_wait(int rank) {
    std::vector<int> path;
    while (std::find(path.begin(), path.end(), rank) == path.end()) {
      path.push_back(rank);
      const Message& message = waiting_message(rank);
      const bool has_peer = message.peer >= 0 && message.peer < static_cast<int>(progress_.size());
      if (!has_peer || is_done(message.peer)) {
        fault("unmatched_message", fmt::format("rank {}: {}", rank, text_of(message)),
              "every send has a recv, and every recv a send", "add the message to the list of its peer");
      }
      rank = message.peer;
    }
    path.erase(path.begin(), std::find(path.begin(), path.end(), rank));
    std::string waits;
    for (const int member : path) {
      waits +=
          fmt::format("{}rank {}: {}", waits.empty() ? "" : "; ", member, text_of(waiting_message(member)));
    }
    fault("wait_cycle", std::move(waits), "waits form no cycle, where a send waits for its recv",
          "put a send and the recv from the same peer into one batch");
  }

  const PipelineSchedule& schedule_;
  StepCost cost_;
  std::vector<RankProgress> progress_;
  std::map<std::pair<int, int>, Channel> channels_;  // by sender and receiver
  std::deque<int> ready_;
  Timeline result_;
};

void require_cost(const StepCost& cost) {
  for (const std::int64_t one : {cost.forward, cost.backward}) {
    if (one >= 1 && one <= kHighestCost) continue;
    refuse({.code = "step_cost",
            .option = "cost of a step",
            .numbers = fmt::format("a cost of {}", one),
            .rule = fmt::format("a cost is from 1 to {} units of time", kHighestCost),
            .hint = "1"});
  }
}

}  // namespace

Timeline timeline(const PipelineSchedule& schedule, const StepCost& cost) {
  require_lists(schedule);
  require_cost(cost);
  return Clockwork(schedule, cost).run();
}

}  // namespace sim
