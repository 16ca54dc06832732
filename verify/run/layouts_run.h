#pragma once

/// A training program, run on several layouts and on a reference, whose values are compared:
///
///   --layouts "tp2; pp2 zero"      Megatron's options are given for each layout, and for one rank
///   --against "--tp 1 --pp 1"      the program as it is, and with these words behind its own
///
/// Shapes  the reference has one rank, unless --against-ranks says another number. All runs are in f64 on
///         the CPU, with weights drawn from their names, or with --weights program those of the program.
///         With --precision program they are in the program's own floats, and a twin of the reference in f64
///         says how large errors are. Faults of --plant are planted on the layouts alone.
///         Modules that --watch names have what they take and give compared, too, which changes no verdict.
/// Errors  those of guest_run.h and layout_words.h; option_without_effect: an option of one run alone, or
///         --layouts beside --against or --ranks.

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "verify/run/compared_values.h"
#include "verify/run/guest_run.h"
#include "verify/run/watched_values.h"

namespace verify {

/// The name of a program that is compared with itself, and has no layout in words.
inline constexpr const char* kTheProgram = "the program";

struct LayoutRequest {
  std::string name;                                         // "tp2 zero", or kTheProgram
  std::vector<std::pair<std::string, std::int64_t>> sizes;  // ("tp", 2); as far as they are known
  GuestRequest request;
};

struct LayoutsRequest {
  LayoutRequest reference;
  std::vector<LayoutRequest> layouts = {};
  bool draws_weights = true;
  std::optional<LayoutRequest> twin = {};  // of the reference, where it computes in the program's floats
};

/// What came of a layout.
struct LayoutRun {
  std::string name;
  GuestRun run;
  ComparedValues compared;
  ComparedWatch watched = {};  // of what modules take and give
  bool is_broken() const { return !run.is_clean(); }
};

struct LayoutsRun {
  GuestRun reference;
  std::string told;                // by the reference: its arguments
  std::int64_t steps = 0;          // of the reference that have values
  std::set<std::string> left_out;  // what is not compared
  WatchedValues watched = {};      // of the reference
  std::vector<LayoutRun> layouts;  // none where the reference is broken or has no values
  int exit_code() const;
};

/// Whether a command line asks for runs that are compared.
bool asks_for_layouts(const CommandLine& line);
LayoutsRequest layouts_request_of(const CommandLine& line, const std::string& called);

/// Runs all, forked by `start`. `print` gets the lines of ranks with the name of their run; `record` has the
/// calls so far.
using PrintOfRun = std::function<void(const std::string& run, const GuestLine& line)>;
LayoutsRun run_layouts(GuestStart& start, const LayoutsRequest& request, const PrintOfRun& print,
                       sim::GuestRecord& record);

/// Returns what is run next, or null at the end. It gets what came of the run before, with all that its ranks
/// have published; null at first.
using NextLayout = std::function<const LayoutRequest*(LayoutRun* latest)>;
/// Runs the reference, and then not the layouts of the request, but what `next` returns.
LayoutsRun run_layouts(GuestStart& start, const LayoutsRequest& request, const NextLayout& next,
                       const PrintOfRun& print, sim::GuestRecord& record);

}  // namespace verify
