#include "verify/full_size/step_totals.h"

#include <fmt/format.h>

#include "verify/full_size/kind_traffic.h"
#include "verify/full_size/step_work.h"
#include "verify/output/phrases.h"
#include "verify/requests/requests.h"

namespace verify {

namespace {

/// Calls visit(call, times, stage) for all calls of the ranks of each stage in so many steps, with how often
/// a rank makes them.
template <typename Visit>
void for_each_call(const ScenarioRequest& request, const std::vector<RankWork>& work, std::int64_t steps,
                   bool with_making, const Visit& visit) {
  const std::int64_t microbatches = microbatches_of_batch(request.batch, request.layout.dp);
  for (int stage = 0; stage < std::ssize(work); ++stage) {
    const auto visit_all = [&](const std::vector<RepeatedCall>& calls, std::int64_t times) {
      for (const RepeatedCall& repeated : calls) visit(repeated, repeated.times * times, stage);
    };
    const RankWork& own = work[static_cast<std::size_t>(stage)];
    for (const ChunkWork& chunk : own.chunks) {
      visit_all(chunk.forward.calls, steps * microbatches);
      visit_all(chunk.backward.calls, steps * microbatches);
    }
    visit_all(own.of_step, steps);
    if (with_making) visit_all(own.of_making, 1);
  }
}

std::string text_of(const CallTotal& total) {
  return fmt::format("{} of {} elements, {} bytes inside nodes and {} across", counted(total.calls, "call"),
                     total.elements, total.bytes_inside, total.bytes_across);
}

}  // namespace

StepTotals expected_totals(const ScenarioRequest& request, std::int64_t steps) {
  const std::int64_t ranks_of_stage = request.layout.grid_size / request.layout.pp;
  KindTraffic traffic(request.layout, request.nodes);
  StepTotals totals;
  for_each_call(
      request, step_work(request), steps, true,
      [&](const RepeatedCall& repeated, std::int64_t times, int stage) {
        const ExpectedCall& call = repeated.call;
        const bool is_message = sim::is_point_to_point(call.operation);
        const bool is_of_all = repeated.ep_rank == kAllEpRanks;
        const std::int64_t calls = times * ranks_of_stage / (is_of_all ? 1 : request.layout.ep);
        const sim::Traffic sent = traffic.of(call, stage, repeated.ep_rank);
        CallTotal& total = totals[{call.group, is_message ? "" : call.site, call.operation, call.dtype}];
        total.calls += calls;
        total.elements += calls * call.elements;
        total.bytes_inside += times * sent.bytes_inside;
        total.bytes_across += times * sent.bytes_across;
      });
  return totals;
}

std::map<std::string, KindBytes> step_bytes(const ScenarioRequest& request, const std::vector<RankWork>& work,
                                            KindTraffic& traffic) {
  std::map<std::string, KindBytes> kinds;
  for_each_call(request, work, 1, false, [&](const RepeatedCall& repeated, std::int64_t times, int stage) {
    const sim::Traffic sent = traffic.of(repeated.call, stage, repeated.ep_rank);
    KindBytes& bytes = kinds[repeated.call.group];
    bytes.inside += times * sent.bytes_inside;
    bytes.across += times * sent.bytes_across;
  });
  return kinds;
}

StepTotals totals_of(const std::vector<sim::LedgerRow>& ledger) {
  StepTotals totals;
  for (const sim::LedgerRow& row : ledger) {
    const bool is_message = sim::is_point_to_point(row.operation);
    CallTotal& total = totals[{row.kind, is_message ? "" : row.site, row.operation, row.dtype}];
    total.calls += row.calls;
    total.elements += row.elements;
    total.bytes_inside += row.bytes_inside;
    total.bytes_across += row.bytes_across;
  }
  return totals;
}

std::string difference(const StepTotals& expected, const StepTotals& made) {
  StepTotals all = expected;
  all.insert(made.begin(), made.end());
  const auto total_in = [](const StepTotals& totals, const TotalKey& key) {
    const auto found = totals.find(key);
    return found == totals.end() ? CallTotal() : found->second;
  };
  for (const auto& [key, unused] : all) {
    const CallTotal stated = total_in(expected, key), own = total_in(made, key);
    if (stated == own) continue;
    return fmt::format("{} of {} {} over {}: {}, where the closed form has {}", sim::name_of(key.operation),
                       sim::name_of(key.dtype), key.site.empty() ? "in messages" : "at '" + key.site + "'",
                       key.kind, text_of(own), text_of(stated));
  }
  return "";
}

}  // namespace verify
