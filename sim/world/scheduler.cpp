#include "sim/world/scheduler.h"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <utility>

#include "sim/base/check.h"

namespace sim {

Scheduler::Scheduler(const Schedule& schedule, int ranks)
    : schedule_(schedule), random_(KeyedRandom(schedule.seed).named("schedule")) {
  if (schedule_.policy != SchedulePolicy::pct) return;
  priorities_.resize(static_cast<std::size_t>(ranks));
  std::iota(priorities_.begin(), priorities_.end(), 1);
  for (std::size_t last = priorities_.size(); last > 1; --last) {
    std::swap(priorities_[last - 1], priorities_[random_.below(draws_++, static_cast<std::uint32_t>(last))]);
  }
  // The steps at which priorities change lie among the first few calls of each rank.
  const auto steps = static_cast<std::uint32_t>(4 * ranks + 64);
  while (static_cast<int>(changes_.size()) < schedule_.depth - 1)
    changes_.insert(random_.below(draws_++, steps));
}

bool Scheduler::runs_later(int a, int b) const {
  return priorities_[static_cast<std::size_t>(a)] < priorities_[static_cast<std::size_t>(b)];
}

/// Moves the rank that has become ready to its place in the heap.
void Scheduler::sift_up() {
  std::push_heap(ready_.begin(), ready_.end(), [&](int a, int b) { return runs_later(a, b); });
}

void Scheduler::choose(std::vector<int>& chosen) {
  SIM_CHECK(has_ready());
  chosen.clear();
  switch (schedule_.policy) {
    case SchedulePolicy::round_robin:
      std::swap(ready_, chosen);
      if (!std::is_sorted(chosen.begin(), chosen.end())) std::sort(chosen.begin(), chosen.end());
      break;
    case SchedulePolicy::uniform:
      choose_uniform(chosen);
      break;
    case SchedulePolicy::pct:
      choose_pct(chosen);
      break;
  }
  ++step_;
  hash_.add(static_cast<std::uint64_t>(chosen.size()));
  for (const int rank : chosen) hash_.add(static_cast<std::uint64_t>(rank));
}

void Scheduler::choose_uniform(std::vector<int>& chosen) {
  std::sort(ready_.begin(), ready_.end());
  std::vector<int> left;
  for (const int rank : ready_) (random_.below(draws_++, 2) == 0 ? chosen : left).push_back(rank);
  if (chosen.empty()) {
    const std::size_t one = random_.below(draws_++, static_cast<std::uint32_t>(left.size()));
    chosen.push_back(left[one]);
    left.erase(left.begin() + static_cast<std::ptrdiff_t>(one));
  }
  for (std::size_t last = chosen.size(); last > 1; --last) {
    std::swap(chosen[last - 1], chosen[random_.below(draws_++, static_cast<std::uint32_t>(last))]);
  }
  ready_ = std::move(left);
}

void Scheduler::choose_pct(std::vector<int>& chosen) {
  std::pop_heap(ready_.begin(), ready_.end(), [&](int a, int b) { return runs_later(a, b); });
  const int rank = ready_.back();
  ready_.pop_back();
  if (changes_.contains(step_)) priorities_[static_cast<std::size_t>(rank)] = --lowest_;
  chosen.push_back(rank);
}

}  // namespace sim
