#include "verify/run/guest_run.h"

#include <filesystem>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <utility>

#include "sim/cpu/cpu_device.h"
#include "verify/faults/faulty_calls.h"
#include "verify/output/phrases.h"
#include "verify/output/refusal_table.h"
#include "verify/requests/requests.h"
#include "verify/requests/scenario.h"
#include "verify/run/live_layout.h"

namespace verify {

namespace {

bool is_interpreter(const std::string& word) {
  return std::filesystem::path(word).filename().string().starts_with("python");
}

}  // namespace

std::string text_of(const std::vector<std::string>& words) {
  std::vector<std::string> quoted;
  for (const std::string& word : words) quoted.push_back(quoted_for_shell(word));
  return fmt::format("{}", fmt::join(quoted, " "));
}

GuestRequest guest_request_of(const CommandLine& line, const std::string& called) {
  const std::string words = text_of(line.program);
  if (line.program.size() < 2 || !is_interpreter(line.program.front()))
    refuse_by("run_program_missing", "the words behind --", words.empty() ? "there are none" : words);
  const std::size_t program = place_of_program(line.program);
  const bool is_file = program < line.program.size() && !line.program[program].starts_with("-");
  if (!is_file && program + 1 >= line.program.size())
    refuse_by("run_program_missing", "the words behind --", words);
  if (is_file && !std::filesystem::exists(line.program[program]))
    refuse_by("run_program_missing", "the words behind --", "there is no file " + line.program[program]);
  const auto ranks = line.settings.number("ranks");
  if (!ranks) refuse_by("missing_option", "--ranks", 2);
  GuestRequest request{
      .command = {.words = line.program,
                  .ranks = static_cast<int>(*ranks),
                  .keeps_off_gpu = line.settings.flag("no-gpu"),
                  .client_folder = folder_of_program("python", SHARDPROOF_CLIENT_DIR)},
      .world = requested_world(line.settings, sim::world_of(static_cast<int>(*ranks)).layout),
      .faults = line.settings.texts("plant")};
  request.world.compares_lines = true;
  request.world.layout.kinds.clear();  // all groups are the program's own, under any names
  request.world.layout.creation.clear();
  const std::vector<std::string> options = line.settings.as_options();
  request.world.reproduce = fmt::format("{} run {} -- {}", called, fmt::join(options, " "), words);
  return request;
}

GuestRun run_guests(const GuestRequest& request, GuestProcesses::Print print) {
  const std::vector<Fault> faults = parsed_faults(request.faults);
  sim::CpuDevice device;
  GuestProcesses processes(request.command, std::move(print));
  sim::GuestRecord record;
  GuestRun run;
  run.report =
      sim::simulate(request.world, device, with_faults(sim::guest_program(processes.ends(), record), faults));
  run.ended = processes.finish();
  run.unmet_faults = unmet_faults(faults);
  run.layout = live_layout(record.groups, request.command.ranks);
  return run;
}

}  // namespace verify
