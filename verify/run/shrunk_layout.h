#pragma once

/// A layout that computes something else than the reference, made smaller as long as it does: fewer ranks,
/// layers and microbatches.
///
/// Shapes  layers and samples are given to the program as --num-layers and --global-batch-size behind its own
///         words. Without Megatron's arguments, as the program tells them, the layout alone is made smaller.
///         Modules are not watched.
/// Exact   each step takes the first of the smaller runs that is falsified: those without a word of the
///         layout, with a divided size, with one layer, half of them and one less, with as few samples as
///         replicas take, and half of them. Where none is, nothing of these can be left out alone. A run that
///         is broken is not falsified. No run is made twice.

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>

#include "verify/output/json.h"
#include "verify/run/layouts_run.h"

namespace verify {

/// The smallest run that was found.
struct ShrunkLayout {
  std::string layout;                         // which was made smaller
  std::map<std::string, std::int64_t> given;  // to the program: ("--num-layers", 1)
  std::optional<LayoutsRequest> request;      // none if the layout held in the first run
  LayoutsRun run;
  int tries = 0;
};

/// `run` runs a request. `layout` is one of the command line whose values are wrong; the first run is of it.
ShrunkLayout shrunk_layout(const CommandLine& line, const std::string& called, const std::string& layout,
                           const std::function<LayoutsRun(const LayoutsRequest&)>& run);

/// Returns what is said of it.
std::string shrunk_text(const ShrunkLayout& shrunk);
/// tries, given, reproduce, and the members of a layout (compared_report.h).
Json shrunk_json(const ShrunkLayout& shrunk);

}  // namespace verify
