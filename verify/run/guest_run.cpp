#include "verify/run/guest_run.h"

#include <algorithm>
#include <filesystem>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <utility>

#include "sim/cpu/cpu_device.h"
#include "verify/faults/faulty_calls.h"
#include "verify/output/phrases.h"
#include "verify/output/refusal_table.h"
#include "verify/requests/requests.h"

namespace verify {

namespace {

/// Returns the folder of the client: that of the installed program, or of the checkout.
std::string client_folder() {
  std::error_code error;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", error);
  const std::filesystem::path installed =
      program.parent_path() / SHARDPROOF_INSTALLED_SCENARIO_DIR / ".." / "python";
  if (!error && std::filesystem::is_directory(installed / "shardproof", error))
    return installed.lexically_normal().string();
  return SHARDPROOF_CLIENT_DIR;
}

bool is_interpreter(const std::string& word) {
  return std::filesystem::path(word).filename().string().starts_with("python");
}

sim::WorldSpec world_for(const CommandLine& line, int ranks) {
  return requested_world(line.settings, sim::world_of(ranks).layout);
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
  GuestRequest request{.command = {.words = line.program,
                                   .ranks = static_cast<int>(*ranks),
                                   .keeps_off_gpu = line.settings.flag("no-gpu"),
                                   .client_folder = client_folder()},
                       .world = world_for(line, static_cast<int>(*ranks)),
                       .faults = line.settings.texts("plant")};
  request.world.compares_lines = true;
  const std::vector<std::string> options = line.settings.as_options();
  request.world.reproduce =
      fmt::format("{} run {} -- {}", called, fmt::join(options, " "), text_of(line.program));
  return request;
}

GuestRun run_guests(const GuestRequest& request, GuestProcesses::Print print) {
  const std::vector<Fault> faults = parsed_faults(request.faults);
  sim::CpuDevice device;
  GuestProcesses processes(request.command, std::move(print));
  GuestRun run;
  run.report =
      sim::simulate(request.world, device, with_faults(sim::guest_program(processes.ends()), faults));
  run.ended = processes.finish();
  run.unmet_faults = unmet_faults(faults);
  return run;
}

}  // namespace verify
