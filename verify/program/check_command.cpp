#include <algorithm>
#include <cstdint>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "sim/base/content_hash.h"
#include "sim/base/printable_text.h"
#include "sim/cpu/cpu_device.h"
#include "sim/meeting/rendezvous.h"
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
#include "verify/output/output_file.h"
#include "verify/output/phrases.h"
#include "verify/output/progress.h"
#include "verify/output/refusal_table.h"
#include "verify/output/report_json.h"
#include "verify/output/text_table.h"
#include "verify/program/backend_check.h"
#include "verify/program/commands.h"
#include "verify/program/report_files.h"
#include "verify/properties/bench.h"
#include "verify/requests/backend_choice.h"
#include "verify/requests/case_options.h"
#include "verify/requests/command_requests.h"
#include "verify/vocabulary/command_line.h"
#include "verify/vocabulary/option_vocabulary.h"

namespace verify {

namespace {

// ---- what a campaign found: its verdict, and the table or the document, with a scenario for each failure

/// Writes the failing setting as a scenario into the working directory. Its name has a hash of the setting,
/// so a line that reproduces it stays true after other runs. Returns its path, or "" if it cannot be written.
std::string write_scenario(const CampaignRow& row, const std::vector<Fault>& faults,
                           const std::string& called) {
  std::string options;
  const NamedValues setting = scenario_options(*row.the_case, *row.property, row.failure->setting);
  for (const auto& [name, value] : with_plants(setting, faults))
    options += fmt::format("{} = {}\n", name, value);
  sim::ContentHash hash;
  hash.add(options);
  const std::string path = fmt::format("failing-{}-{}-{:08x}.ini", row.the_case->name(), row.property->name,
                                       static_cast<std::uint32_t>(hash.value()));
  const std::string source =
      fmt::format("# Source: {} check: {}\n", called, sim::printable_text(row.failure->detail));
  return write_whole_file(path, source + options) ? path : "";
}

std::string slack_text(const CampaignRow& row) {
  return row.slack == 0 ? "" : fmt::format("{:.3g}", row.slack);
}

bool is_broken(const CampaignRow& row) { return row.failure && row.failure->finding; }

std::string verdict_text(const CampaignRow& row, std::int64_t asked_runs) {
  if (row.failure) return is_broken(row) ? "BROKEN" : "FALSIFIED";
  if (row.runs == 0) return "not run";
  const std::string holds = row.runs < asked_runs ? "holds so far" : "holds";
  return row.runs_with_unbounded == 0
             ? holds
             : fmt::format("{}; {} not judged in full", holds, counted(row.runs_with_unbounded, "run"));
}

Json as_json(const CampaignRow& row, const std::string& path) {
  Json json = {{"case", row.the_case->name()},
               {"property", row.property->name},
               {"runs", row.runs},
               {"worst_slack", row.slack},
               {"runs_with_unbounded", row.runs_with_unbounded},
               {"holds", !row.failure.has_value()}};
  if (row.runs == 0) json["holds"] = nullptr;
  if (!row.failure) return json;
  json["detail"] = row.failure->detail;
  json["why"] = row.failure->explanation;
  if (is_broken(row)) json["finding"] = finding_json(*row.failure->finding);
  json["setting"] = text_of(row.failure->setting);
  json["scenario"] = path;
  return json;
}

std::string as_text(const CampaignRow& row, const std::vector<Fault>& faults, const std::string& path,
                    const std::string& called) {
  const NamedValues options = options_of(*row.the_case, *row.property, row.failure->setting);
  const std::string arguments = path.empty() ? command_line_of(with_plants(options, faults)) : " " + path;
  const std::string& why = row.failure->explanation;
  const std::string reproduce = fmt::format("{} replay{}", called, arguments);
  const std::string explained = why.empty() ? "" : fmt::format("  why        {}\n", sim::printable_text(why));
  const std::string with = fmt::format("  with       {}\n", text_of(row.failure->setting));
  const std::string what = fmt::format("\n{} {}: ", row.the_case->name(), row.property->name);
  if (is_broken(row)) return what + sim::text_of(*row.failure->finding, reproduce) + explained + with;
  return fmt::format("{}{}\n{}{}  reproduce  {}\n", what, sim::printable_text(row.failure->detail), explained,
                     with, reproduce);
}

/// What became of all rows.
struct CampaignVerdict {
  std::int64_t falsified = 0, broken = 0;
  std::vector<std::string> unmet_faults = {};  // planted faults that no call, kernel or tensor had
  ExitCode code = kVerified;

  std::string counts() const {
    const std::string of_broken = broken > 0 ? fmt::format(", {} broken", broken) : "";
    const std::string of_unmet =
        unmet_faults.empty() ? "" : fmt::format(", {} not met", counted(std::ssize(unmet_faults), "fault"));
    return fmt::format("{} falsified{}{}", falsified, of_broken, of_unmet);
  }
};

/// As in a replay, what is falsified is worse than what is broken, and a planted fault that nothing had is a
/// failure. A failure that was found before an interrupt is a verdict; what has not failed until then is
/// none.
CampaignVerdict verdict_of(const CampaignRequest& request, const std::vector<CampaignRow>& rows,
                           bool is_whole) {
  CampaignVerdict verdict{.code = is_whole ? kVerified : kInterrupted};
  if (is_whole) verdict.unmet_faults = unmet_faults(request.faults);
  for (const CampaignRow& row : rows)
    if (row.failure) ++(is_broken(row) ? verdict.broken : verdict.falsified);
  if (verdict.falsified > 0 || !verdict.unmet_faults.empty() || verdict.broken > 0)
    verdict.code = verdict.broken > 0 && verdict.falsified == 0 ? kBroken : kFalsified;
  return verdict;
}

/// Returns a suite for each case, with an outcome for each of its properties. A text is that of its failure.
std::vector<OutcomeSuite> suites_of(const std::vector<CampaignRow>& rows,
                                    const std::vector<std::string>& texts) {
  std::vector<OutcomeSuite> suites;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const CampaignRow& row = rows[i];
    if (suites.empty() || suites.back().name != row.the_case->name())
      suites.push_back({.name = row.the_case->name()});
    Outcome& outcome = suites.back().outcomes.emplace_back();
    outcome.name = row.property->name;
    if (row.failure) {
      outcome.problem = is_broken(row) ? "error" : "failure";
      outcome.type = is_broken(row) ? row.failure->finding->code : "property";
      outcome.message = row.failure->detail;
      outcome.text = texts[i];
    } else if (row.runs == 0) {
      outcome.problem = "skipped";
      outcome.type = "not_run";
      outcome.message = "interrupted before its first run";
    }
  }
  return suites;
}

/// Writes the result as a table, or as one JSON document, and each failure as a scenario into the working
/// directory. Returns the exit code.
ExitCode write_campaign(const Call& call, const CampaignRequest& request,
                        const std::vector<CampaignRow>& rows, bool is_whole, const JUnitFile& junit) {
  const CampaignVerdict verdict = verdict_of(request, rows, is_whole);
  Json json_rows = Json::array();
  TextTable table({"case", "property", ">runs", ">worst slack", "verdict"});
  std::string failures;
  std::vector<std::string> texts;  // a failure's, or "", of each row
  std::int64_t runs = 0;
  for (const CampaignRow& row : rows) {
    const std::string path = row.failure ? write_scenario(row, request.faults, call.called) : "";
    runs += row.runs;
    json_rows.push_back(as_json(row, path));
    table.row(row.the_case->name(), row.property->name, row.runs, slack_text(row),
              verdict_text(row, request.runs));
    texts.push_back(row.failure ? as_text(row, request.faults, path, call.called) : "");
    failures += texts.back();
  }
  if (!verdict.unmet_faults.empty()) failures += fmt::format("\nplant: {}\n", text_of_unmet(request.faults));
  const std::vector<OutcomeSuite> suites = suites_of(rows, texts);
  junit.write(suites);  // first, because a refusal must be the only document
  if (asks_for_json(call.line)) {
    call.output.out << one_line({{"verdict", verdict_name(verdict.code)},
                                 {"seed", request.seed},
                                 {"runs", runs},
                                 {"interrupted", !is_whole},
                                 {"unmet_faults", verdict.unmet_faults},
                                 {"rows", std::move(json_rows)}});
  } else {
    const std::string of_runs =
        is_whole ? counted(runs, "run") : fmt::format("{} of {} runs", runs, std::ssize(rows) * request.runs);
    const char* end = is_whole || verdict.code == kInterrupted ? "" : ", then interrupted";
    call.output.out << table.text() << failures
                    << fmt::format("\n{}: {} in {}, seed {}; {}{}\n", verdict_name(verdict.code), of_runs,
                                   counted(std::ssize(rows), "row"), request.seed, verdict.counts(), end);
  }
  write_annotations(call.line, suites, call.output.out);
  return verdict.code;
}

// ---- the runs

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
  const JUnitFile& junit;
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
  output.lines = output.lines && backend.rank() == 0;
  InterruptibleWork work(output, "runs");
  const GoesOn goes_on = shown_by(work, spread.request, rows.size());
  Ended ended;
  sim::WorldSpec world = sim::world_of(backend.processes());
  world.call_limit = kCallLimit;
  sim::CpuDevice cpu;
  backend.run(world, cpu, [&](sim::Rank& rank) {
    ended.is_whole = run_spread_campaign(rank, spread.request, spread.benches, rows, goes_on);
    const ExitCode code = verdict_of(spread.request, rows, ended.is_whole).code;
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
    write_campaign(call, spread.request, rows, ended.is_whole, spread.junit);
    call.output.out.flush();
  });
  backend->close();
  return ended.exit_code;
}

/// Refuses options that would have no effect with others.
void require_effects(const Settings& settings, bool has_backend, bool is_spread) {
  const bool lists_sites = settings.flag("sites");
  if (lists_sites && (has_backend || is_spread))
    refuse_without_effect("sites", "check on several processes or on a device");
  if (settings.has("junit") && (lists_sites || has_backend))
    refuse_without_effect("junit", lists_sites ? "check --sites" : "check on a backend or a device");
}

}  // namespace

int check_cases(const Call& call, const CaseList& cases) {
  const CommandLine& line = call.line;
  if (!line.scenarios.empty()) refuse_by("one_scenario/check", line.scenarios[0], call.called);
  const BackendKind* backend = backend_kind(line.settings);
  const BackendChoice spread = spread_choice(line);
  require_read_on(line, Reader::check, spread.kind == nullptr ? backend : spread.kind);
  require_effects(line.settings, backend != nullptr, spread.kind != nullptr);
  if (backend != nullptr) return check_on_backend(call, cases);
  const JUnitFile junit(line);
  const CaseOptions options = case_options(line.settings);
  const CampaignRequest request = requested_campaign(options, cases);
  std::vector<CampaignRow> rows = campaign_rows(request);
  if (rows.empty()) refuse_nothing_to_check();
  const std::size_t runs = rows.size() * static_cast<std::size_t>(request.runs);
  std::vector<Bench> benches(threads_for(options, runs, spread.launch));
  if (line.settings.flag("sites")) {
    write_sites(call, sites_of(request, benches.front()));
    return kVerified;
  }
  if (!request.faults.empty()) require_sites(request.faults, sites_of(request, benches.front()));
  for (Bench& bench : benches) bench.plant(request.faults);
  if (spread.kind != nullptr)
    return check_spread(call, cases,
                        {.choice = spread, .request = request, .benches = benches, .junit = junit});
  const bool is_whole = run_with_progress(request, rows, benches, call.output);
  return write_campaign(call, request, rows, is_whole, junit);
}

int run_check(const Call& call) { return check_cases(call, all_cases()); }

}  // namespace verify
