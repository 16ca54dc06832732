#include "verify/program/spread_check.h"

#include <fmt/format.h>
#include <memory>

#include "sim/base/content_hash.h"
#include "sim/base/error.h"
#include "sim/cpu/cpu_device.h"
#include "sim/world/world_spec.h"
#include "verify/backends/open_backend.h"
#include "verify/campaign/spread_campaign.h"
#include "verify/output/progress.h"
#include "verify/program/campaign_report.h"
#include "verify/program/interrupt.h"
#include "verify/requests/command_requests.h"
#include "verify/vocabulary/command_line.h"

namespace verify {

namespace {

/// The processes meet once a second, each time with one call: this is enough for years.
constexpr std::int64_t kCallLimit = std::int64_t{1} << 32;

void require_processes_to_spread_over(const BackendChoice& choice, const std::string& called) {
  if (choice.launch.world_size > 1) return;
  sim::refuse(
      {.code = "one_process",
       .option = choice.kind->asked_by,
       .numbers = "1 process",
       .rule = "--spread divides the runs over the processes that mpirun or srun starts",
       .hint = fmt::format("{0}{1} check {2}, or {1} check", launched(4), called, choice.kind->asked_by)});
}

/// Returns a hash of what has to be the same on every process.
std::uint64_t configuration_of(const CommandLine& line, const CaseList& cases) {
  sim::ContentHash hash;
  hash.add(std::string_view(arguments_of(line)));
  for (const auto& one : cases) hash.add(std::string_view(one->name()));
  return hash.value();
}

/// Runs the campaign on all processes. Returns whether it came to its end, and rank 0's exit code.
struct Ended {
  bool is_whole = true;
  int exit_code = 0;
};
Ended run_with_progress(Backend& backend, const SpreadCheck& spread, std::vector<CampaignRow>& rows,
                        const Output& output) {
  const InterruptKept interrupt;
  Progress progress(output.err, output.progress && backend.rank() == 0,
                    rows.size() * static_cast<std::size_t>(spread.request.runs), "runs");
  const GoesOn goes_on = [&](std::int64_t done, const CampaignRow& row) {
    progress.step(static_cast<std::size_t>(done), row.the_case->name() + " " + row.property->name);
    return !interrupt.is_asked();
  };
  Ended ended;
  sim::WorldSpec world = sim::world_of(backend.processes());
  world.call_limit = kCallLimit;
  sim::CpuDevice cpu;
  backend.run(world, cpu, [&](sim::Rank& rank) {
    ended.is_whole = run_spread_campaign(rank, spread.request, spread.benches, rows, goes_on);
    const ExitCode code = verdict_of(spread.request, rows, ended.is_whole).exit_code();
    ended.exit_code = static_cast<int>(number_of_rank_0(rank, code));
  });
  return ended;
}

}  // namespace

int check_spread(const Call& call, const CaseList& cases, const SpreadCheck& spread) {
  require_built(spread.choice, call.backends);
  require_processes_to_spread_over(spread.choice, call.called);
  const std::unique_ptr<Backend> backend =
      open_backend({spread.choice, configuration_of(call.line, cases)}, call.backends, call.output.err);
  Ended ended;
  run_or_end_all(*backend, [&] {
    std::vector<CampaignRow> rows = campaign_rows(spread.request);
    ended = run_with_progress(*backend, spread, rows, call.output);
    backend->finish({true, ""});
    if (backend->rank() != 0) return;
    write_campaign(spread.request, rows, ended.is_whole, asks_for_json(call.line), call.called, call.output);
    call.output.out.flush();
  });
  backend->close();
  return ended.exit_code;
}

}  // namespace verify
