#pragma once

/// Reads the arguments of a run from YAML or JSON: the map MODEL_ARGS of Megatron's functional tests, a flat
/// map of flags, a configuration with sections, or a config.json of Hugging Face.
///
///   MODEL_ARGS:
///     --num-layers: 12
///     --swiglu: true
///     --moe-layer-freq: ([0]*1+[1]*15)
///
/// Shapes  A list becomes several values. Keys are flags with or without the leading dashes. A variable
///         in a value (${TP}, ${TP:-8}) has the value that `set` or the map ENV_VARS gives it; a value with
///         another one is Unresolved. The keys of sections and of a config.json are translated (dialects.h),
///         and ${model.layers} is the value of that path. Of a manifest of Kubernetes, the commands of its
///         containers are read as a launch script (run_manifest.h); its world is known where torchrun says
///         nodes and processes.
/// Errors  those of yaml_tree.h; run_yaml_neox, run_deepspeed_config: the keys are those of GPT-NeoX or
///         DeepSpeed; run_without_arguments: no key is an argument.

#include <string_view>

#include "verify/run_arguments/run_arguments.h"

namespace verify {

RunArguments read_run_yaml(std::string_view text, const RunVariables& set = {});

}  // namespace verify
