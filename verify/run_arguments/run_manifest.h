#pragma once

/// Reads the commands of containers from the manifest of a job (Kubernetes: Job, PyTorchJob, Pod), as the
/// text of a launch script:
///
///   containers:
///     - env: [{name: CUDA_DEVICE_MAX_CONNECTIONS, value: "1"}]
///       command: [torchrun, --nnodes=2, --nproc_per_node=8]
///       args: [pretrain_gpt.py, --num-layers=36, --hidden-size=$(HIDDEN)]
///
/// The text of `run` (SkyPilot) and of a `command` that is no list (Docker Compose) is one for a shell.
///
/// Shapes  A word stands in the line in which the manifest has it, as far as the order of the words allows.
///         $(NAME), which Kubernetes replaces, and ${NAME}, which whoever fills in a template does, are
///         variables. The text behind `bash -c` is left to that shell.

#include <string>
#include <vector>

#include "verify/run_arguments/yaml_tree.h"

namespace verify {

/// Returns the script; "" where no document has a container with a command.
std::string script_of_manifest(const std::vector<YamlNode>& documents);

}  // namespace verify
