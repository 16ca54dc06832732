#pragma once

/// A run as a file of JSON, run.json: what a reader made of a log, a YAML file, a script or a command, or
/// what a training wrote of itself. `--from-as run FILE` writes it, and `--from FILE` reads it.
///
///   {"shardproof_run": 1,
///    "kind": "script",
///    "name": "pretrain.sh",
///    "arguments": [{"name": "num-layers", "values": ["32"], "line": 7},
///                  {"name": "bf16", "values": [], "line": 7},
///                  {"name": "micro-batch-size", "values": ["2"], "from": "option"}],
///    "environment": {"CUDA_DEVICE_MAX_CONNECTIONS": "1"},
///    "world": {"ranks": 64, "gpus_per_node": 8, "from": "--nnodes 8 x --nproc_per_node 8, line 12"},
///    "set": {"NNODES": "8"}}
///
/// Layout  The first member is the version of this format. `kind`, `name` and `arguments` must be there.
///         `kind` is log, yaml, script or command; the arguments of a log have passed Megatron's parser.
///         An argument has its words as texts, none for a flag that stands alone; `line` is that of `name`,
///         and `from` is there for an option of shardproof that replaces the argument.
///         `set` has what --set gave to variables. `program` is the Python file that the command starts.
///         `unresolved` lists what is not known, each with `text`, `line`, `reason`, and as far as it has
///         them `variable`, `argument`, `of_world` (true: a factor of the ranks) and `appended`.
///         `underscores` lists names that the command writes with "_", each with `name` and `line`.
///         `contradictions` and `notes` are lists of sentences.
/// Errors  run_document: a text that is no JSON, or a member that is missing, unknown or of another form;
///         another version; more than kMostRunArguments elements in a list.

#include <string>
#include <string_view>

#include "verify/run_arguments/run_arguments.h"

namespace verify {

/// Whether a text begins as a document of a run does.
bool is_run_document(std::string_view text);

RunArguments read_run_document(std::string_view text);

/// Returns the document, with each argument in a line of its own.
std::string text_of_document(const RunArguments& run);

}  // namespace verify
