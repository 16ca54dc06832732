#pragma once

/// Reads the arguments of a run from YAML: the map MODEL_ARGS of Megatron's functional tests, or a file that
/// is itself a flat map of flags. yaml-cpp reads the text.
///
///   MODEL_ARGS:
///     --num-layers: 12
///     --swiglu: true
///     --moe-layer-freq: ([0]*1+[1]*15)
///
/// Shapes  A sequence becomes several values. Keys are flags with or without the leading dashes. A variable
///         in a value (${TP}, ${TP:-8}) has the value that `set` or the map ENV_VARS gives it; a value with
///         another one is Unresolved. Of a configuration of FlagScale, each key in the sections system, model
///         and data is an argument. Of a manifest of Kubernetes, the commands of its containers are read as
///         a launch script (run_manifest.h); its world is known where torchrun says nodes and processes.
/// Errors  run_yaml_syntax: the text is no YAML, or is nested too deep; run_yaml_nested: flags are in a
///         section of another name, as in the files of --yaml-cfg; run_yaml_neox, run_deepspeed_config: the
///         keys are those of GPT-NeoX or DeepSpeed; run_yaml_alias: an anchor is used again (a short text can
///         stand for gigabytes that way);
///         run_without_arguments: neither MODEL_ARGS nor a flat map of flags.

#include <string_view>

#include "verify/run_arguments/run_arguments.h"

namespace verify {

RunArguments read_run_yaml(std::string_view text, const RunVariables& set = {});

}  // namespace verify
