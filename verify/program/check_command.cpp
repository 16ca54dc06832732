#include <algorithm>
#include <thread>

#include "sim/base/error.h"
#include "verify/campaign/campaign.h"
#include "verify/campaign/case_request.h"
#include "verify/campaign/reached_sites.h"
#include "verify/cases/case_list.h"
#include "verify/output/progress.h"
#include "verify/program/backend_check.h"
#include "verify/program/campaign_report.h"
#include "verify/program/commands.h"
#include "verify/program/interrupt.h"
#include "verify/program/site_list.h"
#include "verify/program/spread_check.h"
#include "verify/requests/backend_choice.h"
#include "verify/requests/command_requests.h"
#include "verify/requests/option_readers.h"
#include "verify/vocabulary/option_vocabulary.h"

namespace verify {

namespace {

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
  const InterruptKept interrupt;
  Progress progress(output.err, output.progress, rows.size() * static_cast<std::size_t>(request.runs),
                    "runs");
  bool is_whole = true;
  run_campaign(request, benches, rows, [&](std::int64_t done, const CampaignRow& row) {
    progress.step(static_cast<std::size_t>(done), row.the_case->name() + " " + row.property->name);
    is_whole = is_whole && !interrupt.is_asked();
    return is_whole;
  });
  return is_whole;
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
    write_sites(sites_of(request, benches.front()), asks_for_json(line), call.output);
    return kVerified;
  }
  if (!request.faults.empty()) require_sites(request.faults, sites_of(request, benches.front()));
  for (Bench& bench : benches) bench.plant(request.faults);
  if (spread.kind != nullptr)
    return check_spread(call, cases, {.choice = spread, .request = request, .benches = benches});
  const bool is_whole = run_with_progress(request, rows, benches, call.output);
  write_campaign(request, rows, is_whole, asks_for_json(line), call.called, call.output);
  return verdict_of(request, rows, is_whole).exit_code();
}

int run_check(const Call& call) { return check_cases(call, all_cases()); }

}  // namespace verify
