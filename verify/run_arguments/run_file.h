#pragma once

/// Opens a run file and hands it to the reader of its kind, which its content tells: a line with the ruler of
/// Megatron's list of arguments makes it a log; a first member "shardproof_run" a document (run_document.h);
/// a first line of the form "key:", or a line "MODEL_ARGS:", makes it YAML, and so does "{", with which other
/// JSON begins; everything else is a launch script or a command line. A folder with a config.json of Hugging
/// Face stands for that file.
///
/// Errors  run_file_missing: there is nothing of this name, or no plain file; run_file_format: a program in
///         Python, or a file of sections, such as TOML; bad_set: a script or YAML has no variable of a name
///         in `set`, or a log or a document has no variables; run_file_text; run_file_size; and those of the
///         readers.

#include <cstddef>
#include <string>

#include "verify/run_arguments/run_arguments.h"

namespace verify {

/// The path that stands for standard input, of which at most kMostPipedBytes are read.
inline constexpr const char* kStandardInput = "-";
inline constexpr std::size_t kMostPipedBytes = std::size_t{256} << 20U;

RunArguments read_run_file(const std::string& path, const RunVariables& set);

/// Reads a script, a command line, YAML or a document that is already in memory. The log, which may be
/// larger, has a reader of its own. `path` is that of the file; "" for a text that is none, beside which no
/// file is read.
RunArguments read_run_text(const std::string& text, const RunVariables& set, const std::string& path = "");

}  // namespace verify
