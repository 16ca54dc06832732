#pragma once

/// A run of a program in Python as the ranks of a virtual world.
///
/// Errors  those of launched_program.h, guest_processes.h and faults. Findings: those of sim/guest and of
///         rank_exit.h.

#include <optional>
#include <string>
#include <vector>

#include "sim/world/simulate.h"
#include "verify/checks/inferred_layout.h"
#include "verify/checks/traced_run.h"
#include "verify/run/guest_processes.h"
#include "verify/run/live_calls.h"
#include "verify/vocabulary/command_line.h"

namespace verify {

struct GuestRequest {
  std::vector<std::string> words;  // behind "--"
  GuestCommand command;
  sim::WorldSpec world;
  std::vector<std::string> faults;  // of --plant
  bool is_traced = false;           // what is written of the run needs its timeline
};

/// What came of a run.
struct GuestRun {
  sim::RunReport report;
  std::vector<std::string> ended;         // by rank: the exit code of its process, or minus the signal
  std::vector<std::string> unmet_faults;  // those of --plant that no call had
  std::optional<TracedRun> trace;         // with GuestRequest::is_traced
  std::optional<JudgedCalls> calls;       // of a program that tells the arguments of Megatron
  std::optional<JudgedLayout> layout;     // of a program over Megatron
  bool checks_nothing = false;            // no rank made a call or a group
  bool is_clean() const { return report.ok() && unmet_faults.empty(); }
};

/// Returns a layout of so many ranks without groups: all but the world are those that the program makes.
sim::Layout layout_without_groups(int ranks);
/// `ranks` takes the place of --ranks and of what a launcher says.
GuestRequest guest_request_of(const CommandLine& line, const std::string& called,
                              std::optional<int> ranks = std::nullopt);
/// Runs the program, forked by `start`. `print` gets the lines that the ranks write; `record.calls` is the
/// number of calls so far.
GuestRun run_guests(GuestStart& start, const GuestRequest& request, GuestPipes::Print print,
                    sim::GuestRecord& record);

/// Returns a command line as a reader would type it.
std::string text_of(const std::vector<std::string>& words);

}  // namespace verify
