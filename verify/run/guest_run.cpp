#include "verify/run/guest_run.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <utility>

#include "sim/cpu/cpu_device.h"
#include "sim/tensor/counting_device.h"
#include "verify/faults/faulty_calls.h"
#include "verify/output/phrases.h"
#include "verify/requests/requests.h"
#include "verify/requests/scenario.h"
#include "verify/run/launched_program.h"
#include "verify/run/live_layout.h"
#include "verify/run/rank_exit.h"

namespace verify {

sim::Layout layout_without_groups(int ranks) {
  sim::Layout layout = sim::world_of(ranks).layout;
  layout.kinds.clear();
  layout.creation.clear();
  return layout;
}

std::string text_of(const std::vector<std::string>& words) {
  std::vector<std::string> quoted;
  for (const std::string& word : words) quoted.push_back(quoted_for_shell(word));
  return fmt::format("{}", fmt::join(quoted, " "));
}

GuestRequest guest_request_of(const CommandLine& line, const std::string& called, std::optional<int> ranks) {
  LaunchedProgram program = launched_program(line.program);
  const RankCounts counts =
      ranks ? RankCounts{*ranks, *ranks} : rank_counts(program, line.settings.number("ranks"));
  GuestRequest request{
      .words = line.program,
      .command = {.start = {.python = std::move(program.python),
                            .variables =
                                program.launched ? program.launched->variables : StartCommand::Variables{},
                            .client_folder = folder_of_program("python", SHARDPROOF_CLIENT_DIR)},
                  .ranks = counts.ranks,
                  .ranks_of_node = counts.ranks_of_node,
                  .gives_local_rank = program.launched && program.launched->gives_local_rank,
                  .keeps_off_gpu = line.settings.flag("no-gpu")},
      .world = requested_world(line.settings, layout_without_groups(counts.ranks)),
      .faults = line.settings.texts("plant"),
      .is_traced = line.settings.has("trace") || line.settings.has("flight-recorder")};
  request.world.reproduce =
      fmt::format("{} run{} -- {}", called, line.settings.as_command_line(), text_of(line.program));
  return request;
}

namespace {

/// Returns the faults of a request as with_faults() takes them. For each that makes a call early the program
/// runs without faults first.
std::vector<Fault> faults_of(GuestStart& start, const GuestRequest& request, sim::Device& device) {
  std::vector<Fault> faults = parsed_faults(request.faults);
  for (Fault& fault : faults) {
    if (fault.kind != FaultKind::early) continue;
    sim::GuestRecord unused;
    GuestProcesses processes(start, request.command, [](const GuestLine&) {});
    fault =
        with_calls_before({fault}, request.world, device, sim::guest_program(processes.ends(), unused))[0];
    processes.finish();
  }
  return faults;
}

}  // namespace

GuestRun run_guests(GuestStart& start, const GuestRequest& request, GuestPipes::Print print,
                    sim::GuestRecord& record) {
  sim::CpuDevice device;
  const std::vector<Fault> faults = faults_of(start, request, device);
  sim::CountingDevice counting(device);
  GuestProcesses processes(start, request.command, std::move(print));
  GuestRun run;
  run.report = sim::simulate(request.world, request.is_traced ? static_cast<sim::Device&>(counting) : device,
                             with_faults(sim::guest_program(processes.ends(), record), faults));
  run.ended = processes.finish();
  add_rank_exits(run.report, run.ended, request.world.reproduce);
  run.checks_nothing = run.report.ledger.empty() && record.groups.empty();
  run.unmet_faults = unmet_faults(faults);
  run.calls = judged_calls(record.told, run.report);
  run.layout = live_layout(record.groups, request.command.ranks,
                           run.calls ? std::move(run.calls->layout) : std::nullopt);
  if (request.is_traced)
    run.trace = traced_run("the calls of the program", request.world, run.report, counting);
  return run;
}

}  // namespace verify
