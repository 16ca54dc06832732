#include "verify/campaign/spread_campaign.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <functional>
#include <future>
#include <utility>

#include "sim/tensor/ops.h"
#include "verify/campaign/campaign_work.h"
#include "verify/properties/bench.h"

namespace verify {

namespace {

/// Returns the numbers, added up over all ranks, or the largest or least of all ranks.
std::vector<double> over_ranks(sim::Rank& rank, sim::ReduceOp op, std::vector<double> numbers,
                               sim::Site site) {
  const auto bytes = std::as_bytes(std::span(numbers));
  const sim::Tensor all =
      sim::from_host(rank.device, sim::DType::f64, {std::ssize(numbers)}, {bytes.data(), bytes.size()});
  rank.groups.world().all_reduce(all, op, site);
  const std::vector<std::byte> result = sim::host_bytes(all);
  std::memcpy(numbers.data(), result.data(), result.size());
  return numbers;
}

/// What the threads of this rank know of the campaign, and tell.
struct ThreadsHere {
  std::atomic<bool> stops = false;
  std::atomic<std::int64_t> done = 0;
  std::atomic<const CampaignRow*> row = nullptr;

  bool goes_on(std::int64_t runs, const CampaignRow& of_row) {
    done = runs;
    row = &of_row;
    return !stops;
  }
};

/// Waits until all threads are over, at most so long. Returns whether they are.
bool are_over(const std::vector<std::future<void>>& threads, std::chrono::milliseconds wait) {
  const auto until = std::chrono::steady_clock::now() + wait;
  return std::ranges::all_of(threads, [&](const std::future<void>& thread) {
    return thread.wait_until(until) == std::future_status::ready;
  });
}

/// Runs `work` on a thread for each bench, and meets the other ranks until it is over on all of them.
void meet_while(sim::Rank& rank, std::span<Bench> benches, ThreadsHere& here, const GoesOn& goes_on,
                const std::function<void(Bench&)>& work) {
  constexpr std::chrono::milliseconds kFirst{5}, kLongest{1000};
  std::vector<std::future<void>> threads;
  for (Bench& bench : benches) threads.push_back(std::async(std::launch::async, [&] { work(bench); }));
  bool stops = false;
  for (auto wait = kFirst;; wait = std::min(2 * wait, kLongest)) {
    const bool is_over = are_over(threads, wait);
    const std::vector<double> sums =
        over_ranks(rank, sim::ReduceOp::sum,
                   {static_cast<double>(here.done), is_over ? 1.0 : 0.0, stops ? 1.0 : 0.0}, "spread.pulse");
    if (sums[2] > 0) here.stops = true;
    if (sums[1] == rank.groups.world().size()) break;
    stops = !goes_on(static_cast<std::int64_t>(sums[0]), *here.row.load());
  }
  for (std::future<void>& thread : threads) thread.get();
}

/// Finds the first failure of each row on all ranks, and adds up the runs until then. Returns, for each row,
/// the number of the run that failed.
std::vector<double> conclude(sim::Rank& rank, CampaignWork& campaign, std::vector<CampaignRow>& rows) {
  std::vector<double> failures, counts, slacks;
  for (std::size_t row = 0; row < rows.size(); ++row)
    failures.push_back(static_cast<double>(campaign.first_failure(row)));
  failures = over_ranks(rank, sim::ReduceOp::min, std::move(failures), "spread.first_failures");
  for (std::size_t row = 0; row < rows.size(); ++row) {
    campaign.conclude(row, static_cast<std::int64_t>(failures[row]));
    counts.push_back(static_cast<double>(rows[row].runs));
    counts.push_back(static_cast<double>(rows[row].runs_with_unbounded));
    slacks.push_back(rows[row].slack);
  }
  counts = over_ranks(rank, sim::ReduceOp::sum, std::move(counts), "spread.counts");
  slacks = over_ranks(rank, sim::ReduceOp::max, std::move(slacks), "spread.slacks");
  for (std::size_t row = 0; row < rows.size(); ++row) {
    rows[row].runs = static_cast<std::int64_t>(counts[2 * row]);
    rows[row].runs_with_unbounded = static_cast<std::int64_t>(counts[2 * row + 1]);
    rows[row].slack = slacks[row];
  }
  return failures;
}

/// Adds up over all ranks how many calls had each planted fault.
void add_up_met(sim::Rank& rank, const std::vector<Fault>& faults) {
  if (faults.empty()) return;
  std::vector<double> met;
  for (const Fault& fault : faults) met.push_back(static_cast<double>(*fault.met));
  met = over_ranks(rank, sim::ReduceOp::sum, std::move(met), "spread.met");
  for (std::size_t i = 0; i < faults.size(); ++i) *faults[i].met = static_cast<std::int64_t>(met[i]);
}

}  // namespace

bool run_spread_campaign(sim::Rank& rank, const CampaignRequest& request, std::span<Bench> benches,
                         std::vector<CampaignRow>& rows, const GoesOn& goes_on) {
  ThreadsHere here;
  here.row = rows.data();
  CampaignWork campaign(
      request, rows, [&](std::int64_t done, const CampaignRow& row) { return here.goes_on(done, row); },
      Share{.index = rank.id, .shares = rank.groups.world().size()});
  meet_while(rank, benches, here, goes_on, [&](Bench& bench) { campaign.work(bench); });
  const std::vector<double> failures = conclude(rank, campaign, rows);
  const bool shrinks = rank.id == 0;
  std::atomic<std::size_t> next = 0;
  meet_while(rank, shrinks ? benches : benches.first(0), here, goes_on, [&](Bench& bench) {
    for (std::size_t row = next++; row < rows.size(); row = next++) {
      const auto failure = static_cast<std::int64_t>(failures[row]);
      if (failure != CampaignWork::kNoRun) campaign.settle(bench, row, failure);
    }
  });
  add_up_met(rank, request.faults);
  const double stopped = campaign.was_stopped() ? 1 : 0;
  return over_ranks(rank, sim::ReduceOp::max, {stopped}, "spread.end").front() == 0;
}

std::int64_t number_of_rank_0(sim::Rank& rank, std::int64_t number) {
  const double own = rank.id == 0 ? static_cast<double>(number) : 0;
  return static_cast<std::int64_t>(over_ranks(rank, sim::ReduceOp::sum, {own}, "spread.number").front());
}

}  // namespace verify
