#pragma once

/// Reads the arguments of a run from YAML or JSON: the map MODEL_ARGS of Megatron's functional tests, a flat
/// map of flags, a configuration with sections, a config.json of Hugging Face, or the manifest of a job.
///
///   MODEL_ARGS:
///     --num-layers: 12
///     --swiglu: true
///     --moe-layer-freq: ([0]*1+[1]*15)
///
/// Shapes  A list becomes several values. Keys are flags with or without the leading dashes. A variable in a
///         value (${TP}, ${TP:-8}) has the value that `set` or the map ENV_VARS gives it; a value with
///         another one is Unresolved. The keys of sections and of a config.json are translated (dialects.h),
///         and ${model.layers} is the value of that path. Of a manifest (Kubernetes: Job, PyTorchJob, Pod),
///         the commands of its containers are read as a launch script; its world is known where torchrun says
///         nodes and processes. The text of `run` (SkyPilot) and of a `command` that is no list (Docker
///         Compose) is one for a shell.
/// Errors  run_yaml_syntax: the text is no YAML, or is nested too deep; run_yaml_alias: an anchor is used
///         again (a short text can stand for gigabytes that way); run_file_size: too many nodes;
///         run_yaml_neox, run_deepspeed_config: the keys are those of GPT-NeoX or DeepSpeed;
///         run_without_arguments: no key is an argument.

#include <string_view>

#include "verify/run_arguments/run_arguments.h"

namespace verify {

RunArguments read_run_yaml(std::string_view text, const RunVariables& set = {});

}  // namespace verify
