#pragma once

/// The requests of the commands, as typed values. Commands that show one thing take at most one scenario, and
/// options of the command line replace those of the scenario.
///
/// Errors  those of group_dump.h for groups, and of megatron_validation.h for layers, schedule and shards;
///         flag_with_value, value_missing, values_too_many, list_with_commas (megatron_validation.h);
///         one_scenario: more than one scenario; missing_option: inspect without a dump, and shards with
///         neither the sizes of parameters nor the shape of a model; no_such_parameter, not_a_number,
///         buffer_sizes: wrong indices, numbers or bucket sizes for shards; option_without_effect: an option
///         that a program of a project does not read, or the shape of a model beside the sizes of parameters;
///         and what layouts, placements and settings refuse.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "sim/layout/layer_placement.h"
#include "sim/layout/layout.h"
#include "sim/layout/node_placement.h"
#include "sim/optimizer/buffer_layout.h"
#include "verify/requests/case_options.h"
#include "verify/requests/group_dump.h"
#include "verify/requests/model_options.h"
#include "verify/requests/requests.h"
#include "verify/requests/scenario.h"
#include "verify/vocabulary/command_line.h"
#include "verify/vocabulary/option_vocabulary.h"

namespace verify {

/// Returns the scenario of a command that takes at most one; without a file, that of the options.
Scenario requested_scenario(const CommandLine& line);

struct GroupsRequest {
  sim::Layout layout;
  sim::NodePlacement nodes;
  std::vector<std::string> kinds;  // empty: all
  std::optional<std::int64_t> rank;
  std::optional<GroupDump> against;  // the groups of a running job
};
GroupsRequest groups_request(const CommandLine& line);

struct LayersRequest {
  sim::LayerPlacement placement;
  std::string rules;  // the name of the rule book: "megatron" or "legacy"
  std::vector<sim::Warning> warnings;
};
LayersRequest layers_request(const CommandLine& line);

struct ScheduleCommandRequest {
  ScheduleRequest schedule;
  std::optional<std::string> svg;  // the file that the drawing is written to
  std::vector<sim::Warning> warnings;
};
ScheduleCommandRequest schedule_request(const CommandLine& line);

/// The parameters of the buffer: given one by one, or those of a GPT of this shape on one rank.
struct ShardsRequest {
  std::vector<sim::BufferParameter> parameters;  // empty where `model` is present
  std::optional<sim::GptConfig> model;
  int tensor_model_parallel_size = 1;  // of the model
  int expert_model_parallel_size = 1;
  int expert_tensor_parallel_size = 1;
  sim::BufferConfig config;
  int stage = 0;  // the pipeline rank whose buffers are shown, of a run
};
ShardsRequest shards_request(const CommandLine& line);

/// Reads the options about cases for the program of another project (verify/prove.h), from a scenario and the
/// command line. An option that `reader` does not read is refused, even where the scenario gives it.
CaseOptions case_request(const CommandLine& line, Reader reader);

/// What inspect reads, and the layout against which it holds the groups of the dumps.
struct InspectRequest {
  std::vector<std::string> paths;  // files and folders of dumps
  std::string rank_from;           // a regular expression; "": none
  int threads = 1;
  bool shows_all = false;
  /// Makes the layout of --from or of the options for a world of this many ranks, where they do not say how
  /// many it has; nothing where neither gives a layout.
  std::function<std::optional<sim::Layout>(int world_size)> layout_of_world;
};
InspectRequest inspect_request(const CommandLine& line);

/// Returns the options of the command line as text for a shell. Options of a single call (output,
/// process) and the option `without` are left out. What `--from -` reads is written as < FILE.
std::string arguments_of(const CommandLine& line, const std::string& without = "");

/// Whether the user asks for the result as JSON.
bool asks_for_json(const CommandLine& line);

}  // namespace verify
