#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "sim/base/error.h"
#include "sim/cpu/cpu_device.h"
#include "sim/world/world_spec.h"
#include "verify/backends/backend.h"
#include "verify/campaign/campaign.h"
#include "verify/campaign/case_request.h"
#include "verify/campaign/spread_campaign.h"
#include "verify/cases/case_list.h"
#include "verify/faults/fault.h"
#include "verify/faults/faulty_device.h"
#include "verify/output/json.h"
#include "verify/output/output.h"
#include "verify/output/text_table.h"
#include "verify/program/backend_check.h"
#include "verify/program/campaign_report.h"
#include "verify/program/commands.h"
#include "verify/program/interrupt.h"
#include "verify/requests/backend_choice.h"
#include "verify/requests/command_requests.h"
#include "verify/requests/option_readers.h"
#include "verify/vocabulary/command_line.h"
#include "verify/vocabulary/option_vocabulary.h"

namespace verify {

namespace {

/// Returns what shows the progress of a campaign's runs, and ends them at an interrupt.
GoesOn shown_by(InterruptibleWork& work, const CampaignRequest& request, std::size_t rows) {
  const std::size_t runs = rows * static_cast<std::size_t>(request.runs);
  return [&work, runs](std::int64_t done, const CampaignRow& row) {
    return work(static_cast<std::size_t>(done), runs, row.the_case->name() + " " + row.property->name);
  };
}

/// Returns the number of threads that this process's runs are divided over: as many as the options say, or as
/// there are cores for each process of this machine. The result is the same for any number.
std::size_t threads_for(const CaseOptions& options, std::size_t runs, const sim::Launch& launch) {
  constexpr std::size_t kMost = 256;
  const auto processes = static_cast<unsigned>(launch.local ? launch.local->world_size : 1);
  const std::size_t cores = std::max(1U, std::thread::hardware_concurrency() / processes);
  const auto asked = options.threads ? static_cast<std::size_t>(*options.threads) : cores;
  return std::min({asked, runs, kMost});
}

/// Runs the campaign up to its end, or up to an interrupt. Returns whether it came to its end.
bool run_with_progress(const CampaignRequest& request, std::vector<CampaignRow>& rows,
                       std::span<Bench> benches, const Output& output) {
  InterruptibleWork work(output, "runs");
  const GoesOn goes_on = shown_by(work, request, rows.size());
  bool is_whole = true;
  run_campaign(request, benches, rows, [&](std::int64_t done, const CampaignRow& row) {
    is_whole = goes_on(done, row) && is_whole;
    return is_whole;
  });
  return is_whole;
}

/// Writes what check --sites shows: a table of the calls and published tensors in `sites`, at which --plant
/// can plant a fault, and of all kernels; or one JSON document. Beside a call stand the operations that are
/// called there.
void write_sites(const Call& call, std::span<const SiteOperation> sites) {
  std::map<std::string, std::vector<std::string>> operations;  // none of a kernel or tensor
  for (const SiteOperation& one : sites) {
    std::vector<std::string>& of_site = operations[one.site];
    if (!one.is_tensor()) of_site.emplace_back(sim::name_of(one.operation));
  }
  for (const std::string& kernel : kernel_names()) operations[kernel];
  if (asks_for_json(call.line)) {
    Json rows = Json::array();
    for (const auto& [site, of_site] : operations) rows.push_back({{"site", site}, {"operations", of_site}});
    call.output.out << one_line({{"sites", std::move(rows)}});
    return;
  }
  TextTable table({"site", "operations"});
  for (const auto& [site, of_site] : operations) table.row(site, fmt::join(of_site, ", "));
  call.output.out << table.text();
}

// ---- --spread
//
// The command check with --spread. Its runs are divided over the processes of mpirun or srun, and the runs
// of each process over its threads, so that a campaign can be larger than one machine.
//
// Shapes  process p has share p (campaign_work.h).
// Calls   Every process calls it with the same command line. Process 0 writes the table or the document,
//         which is that of one process, byte for byte; standard error says in addition who told the
//         processes who they are. All processes return the same exit code. mpirun may bind a process and all
//         its threads to one core; --bind-to none prevents that. An interrupt of any process ends the
//         campaign on all of them, and the table says how far each row came. srun passes an interrupt on to
//         the processes; mpirun ends them instead, and then there is no table.
// Errors  one_process: there is only one process; those of backend.h. If a process dies
//         or stops, the others name it within --deadline and end (rank_silent, process_silent), or the
//         launcher does so first.

struct SpreadCheck {
  const BackendChoice& choice;  // what spread_choice() returned
  const CampaignRequest& request;
  std::span<Bench> benches;  // one for each thread of this process
};

/// The processes meet once a second, each time with one call: this is enough for years.
constexpr std::int64_t kCallLimit = std::int64_t{1} << 32;

/// Runs the campaign on all processes. Returns whether it came to its end, and rank 0's exit code.
struct Ended {
  bool is_whole = true;
  int exit_code = 0;
};
Ended run_with_progress(Backend& backend, const SpreadCheck& spread, std::vector<CampaignRow>& rows,
                        Output output) {
  output.progress = output.progress && backend.rank() == 0;
  InterruptibleWork work(output, "runs");
  const GoesOn goes_on = shown_by(work, spread.request, rows.size());
  Ended ended;
  sim::WorldSpec world = sim::world_of(backend.processes());
  world.call_limit = kCallLimit;
  sim::CpuDevice cpu;
  backend.run(world, cpu, [&](sim::Rank& rank) {
    ended.is_whole = run_spread_campaign(rank, spread.request, spread.benches, rows, goes_on);
    const ExitCode code = exit_code_of(spread.request, rows, ended.is_whole);
    ended.exit_code = static_cast<int>(number_of_rank_0(rank, code));
  });
  return ended;
}

/// Returns the exit code.
int check_spread(const Call& call, const CaseList& cases, const SpreadCheck& spread) {
  require_built(spread.choice, call.backends);
  require_several_processes(spread.choice, call.called,
                            "--spread divides the runs over the processes that mpirun or srun starts",
                            fmt::format(", or {} check", call.called));
  const std::unique_ptr<Backend> backend =
      open_backend({spread.choice, configuration_of(call.line, cases)}, call.backends, call.output.err);
  Ended ended;
  run_or_end_all(*backend, [&] {
    std::vector<CampaignRow> rows = campaign_rows(spread.request);
    ended = run_with_progress(*backend, spread, rows, call.output);
    backend->finish({true, ""});
    if (backend->rank() != 0) return;
    write_campaign(call, spread.request, rows, ended.is_whole);
    call.output.out.flush();
  });
  backend->close();
  return ended.exit_code;
}

}  // namespace

int check_cases(const Call& call, const CaseList& cases) {
  const CommandLine& line = call.line;
  if (!line.scenarios.empty()) {
    sim::refuse({.code = "one_scenario",
                 .option = line.scenarios[0],
                 .numbers = "a scenario is given",
                 .rule = "'check' takes no scenario, because it draws its own settings",
                 .hint = call.called + " replay " + line.scenarios[0]});
  }
  const BackendKind* backend = backend_kind(line);
  const BackendChoice spread = spread_choice(line);
  require_read_on(line, Reader::check, spread.kind == nullptr ? backend : spread.kind);
  const bool lists_sites = line.settings.flag("sites");
  if (lists_sites && (backend != nullptr || spread.kind != nullptr))
    refuse_without_effect("sites", "check on several processes or on a device");
  if (backend != nullptr) return check_on_backend(call, cases);
  const CaseOptions options = case_options(line.settings);
  const CampaignRequest request = requested_campaign(options, cases);
  std::vector<CampaignRow> rows = campaign_rows(request);
  if (rows.empty()) refuse_nothing_to_check();
  const std::size_t runs = rows.size() * static_cast<std::size_t>(request.runs);
  std::vector<Bench> benches(threads_for(options, runs, spread.launch));
  if (lists_sites) {
    write_sites(call, sites_of(request, benches.front()));
    return kVerified;
  }
  if (!request.faults.empty()) require_sites(request.faults, sites_of(request, benches.front()));
  for (Bench& bench : benches) bench.plant(request.faults);
  if (spread.kind != nullptr)
    return check_spread(call, cases, {.choice = spread, .request = request, .benches = benches});
  const bool is_whole = run_with_progress(request, rows, benches, call.output);
  write_campaign(call, request, rows, is_whole);
  return exit_code_of(request, rows, is_whole);
}

int run_check(const Call& call) { return check_cases(call, all_cases()); }

}  // namespace verify
