#pragma once

/// What each command that shows or checks something is asked for, as typed values. Commands that show one
/// thing take at most one scenario, under the options of the command line.
///
/// Errors  one_scenario; missing_option; no_such_parameter, buffer_sizes: parameters of shards; and what
///         layouts, placements and settings refuse.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/layout/layer_placement.h"
#include "sim/layout/layout.h"
#include "sim/layout/node_placement.h"
#include "sim/optimizer/buffer_layout.h"
#include "verify/options/case_options.h"
#include "verify/options/command_line.h"
#include "verify/options/option_vocabulary.h"
#include "verify/options/schedule_request.h"

namespace verify {

struct GroupsRequest {
  sim::Layout layout;
  sim::NodePlacement nodes;
  std::vector<std::string> kinds;  // empty: all
  std::optional<std::int64_t> rank;
};
GroupsRequest groups_request(const CommandLine& line);

struct LayersRequest {
  sim::LayerPlacement placement;
  std::string rules;  // the name of the rule book
  std::vector<sim::Warning> warnings;
};
LayersRequest layers_request(const CommandLine& line);

struct ScheduleCommandRequest {
  ScheduleRequest schedule;
  std::optional<std::string> svg;  // the file to draw into
};
ScheduleCommandRequest schedule_request(const CommandLine& line);

struct ShardsRequest {
  std::vector<sim::BufferParameter> parameters;
  sim::BufferConfig config;
};
ShardsRequest shards_request(const CommandLine& line);

/// What a project's own program is asked to replay: one setting of one case, from a scenario or the command
/// line. Options of the scenario that `reader` does not read are refused, too.
CaseOptions case_request(const CommandLine& line, Reader reader);

/// The files that replay writes beside its result, and the paths it must not write over.
struct ReplayFilesRequest {
  struct File {
    std::string option;  // report, junit or trace
    std::string path;
  };
  std::vector<File> files;
  std::vector<std::string> inputs;
};
ReplayFilesRequest replay_files_request(const CommandLine& line);

/// The options of the command line as a shell takes them, but for those of one call; without one option.
std::string arguments_of(const CommandLine& line, const std::string& without = "");

/// Reads every value once, so that one that nobody looks at is refused, too, when it is no number, size or
/// word.
void require_readable(const CommandLine& line);

/// Whether the result is asked for as JSON.
bool asks_for_json(const CommandLine& line);

}  // namespace verify
