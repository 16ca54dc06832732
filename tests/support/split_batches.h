#pragma once

/// Plants mistakes with batches of messages into a correct schedule.

#include <algorithm>
#include <utility>
#include <vector>

#include "sim/pipeline/schedule.h"

namespace test {

/// Makes every message an action of its own, sends first, so that a rank sends to a peer that is itself
/// sending.
inline void split_batches(sim::PipelineSchedule& schedule) {
  for (sim::RankSchedule& rank : schedule.ranks) {
    std::vector<sim::Action> actions;
    for (sim::Action& action : rank.actions) {
      if (action.step) {
        actions.push_back(action);
        continue;
      }
      std::stable_sort(action.messages.begin(), action.messages.end(),
                       [](const auto& a, const auto& b) { return a.is_send > b.is_send; });
      for (const sim::Message& message : action.messages) actions.push_back({std::nullopt, {message}});
    }
    rank.actions = std::move(actions);
  }
}

/// Orders messages as send_prev, recv_prev, send_next, recv_next, where next and previous are the same rank.
inline void order_as_megatrons_batch(sim::PipelineSchedule& schedule) {
  const auto place = [](const sim::Message& message) {
    const bool is_forward = message.input.pass == sim::Pass::forward;
    return message.is_send ? (is_forward ? 2 : 0) : (is_forward ? 1 : 3);
  };
  for (sim::RankSchedule& rank : schedule.ranks) {
    for (sim::Action& action : rank.actions) {
      std::sort(action.messages.begin(), action.messages.end(),
                [&](const auto& a, const auto& b) { return place(a) < place(b); });
    }
  }
}

}  // namespace test
