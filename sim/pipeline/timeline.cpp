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

constexpr std::size_t kNoStep = static_cast<std::size_t>(-1);

/// Why it is as late as it is: the last step before, and the messages behind it.
struct Cause {
  std::size_t step = kNoStep;  // index in Clockwork::done_
  std::int64_t messages = 0;
};

struct RankProgress {
  std::size_t next = 0;  // the number of the next action
  std::int64_t now = 0;
  Cause cause;   // of now
  int open = 0;  // messages of the batch that have not been paired yet
  bool in_batch = false;
  std::int64_t batch_end = 0;  // the latest end of the messages paired so far
  Cause batch_cause;
  std::int64_t work = 0;
};

/// A step that is done, and its cause.
struct DoneStep {
  CriticalStep step;
  std::size_t before = kNoStep;
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
  Clockwork(const PipelineSchedule& schedule, const StepTimes& times)
      : schedule_(schedule), times_(times), progress_(schedule.ranks.size()) {
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
    for (int rank = 0; rank < std::ssize(progress_); ++rank) end(rank);
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
        own.cause = own.batch_cause;
        own.in_batch = false;
      }
      ++own.next;
    }
  }

  /// Lets a rank work for some time, from now on.
  TimedStep pass(int rank, const std::optional<Step>& step, std::int64_t time) {
    RankProgress& own = progress_of(rank);
    const std::int64_t begin = own.now;
    own.now += time;
    own.work += time;
    done_.push_back({{rank, step, own.cause.messages, begin, own.now}, own.cause.step});
    own.cause = {done_.size() - 1, 0};
    return {step.value_or(Step()), begin, own.now};
  }

  void compute(int rank, const Step& step) {
    result_.ranks[static_cast<std::size_t>(rank)].push_back(pass(rank, step, times_.step(rank, step)));
  }

  /// Ends a rank. The critical path is that of the first rank that ends last.
  void end(int rank) {
    result_.ends.push_back(pass(rank, std::nullopt, times_.end(rank)));
    result_.work = std::max(result_.work, progress_of(rank).work);
    if (rank > 0 && progress_of(rank).now <= result_.length) return;
    result_.length = progress_of(rank).now;
    result_.critical.clear();
    for (std::size_t i = done_.size() - 1; i != kNoStep; i = done_[i].before)
      result_.critical.push_back(done_[i].step);
    std::reverse(result_.critical.begin(), result_.critical.end());
  }

  void post_all(int rank, const std::vector<Message>& messages) {
    RankProgress& own = progress_of(rank);
    own.in_batch = true;
    own.open = static_cast<int>(messages.size());
    own.batch_end = own.now;
    own.batch_cause = own.cause;
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
    const Posted& sender = here.message.is_send ? here : there;
    const std::int64_t taken = times_.message(sender.rank, sender.message.peer);
    const std::int64_t time = std::max(here.time, there.time) + taken;
    for (const auto& [own, other] : {std::pair(&here, &there), std::pair(&there, &here)}) {
      RankProgress& side = progress_of(own->rank);
      if (time > side.batch_end) {
        const Cause& cause = progress_of(own->time >= other->time ? own->rank : other->rank).cause;
        side.batch_cause = {cause.step, cause.messages + taken};
        side.batch_end = time;
      }
      if (--side.open == 0 && own->rank != here.rank) ready_.push_back(own->rank);
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
    SIM_CHECK(waiting != batch.end());
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
    fault("wait_cycle", std::move(waits), "no cyclic wait: a send waits for its recv",
          "put a send and the recv from the same peer into one batch");
  }

  const PipelineSchedule& schedule_;
  const StepTimes& times_;
  std::vector<RankProgress> progress_;
  std::map<std::pair<int, int>, Channel> channels_;  // by sender and receiver
  std::deque<int> ready_;
  std::vector<DoneStep> done_;
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
  require_cost(cost);
  return timeline(schedule, {.step =
                                 [&](int, const Step& step) {
                                   return step.pass == Pass::forward ? cost.forward : cost.backward;
                                 },
                             .message = [](int, int) { return std::int64_t{0}; },
                             .end = [](int) { return std::int64_t{0}; }});
}

Timeline timeline(const PipelineSchedule& schedule, const StepTimes& times) {
  require_lists(schedule);
  return Clockwork(schedule, times).run();
}

}  // namespace sim
