#pragma once

/// Arguments of a run under the names of another program: a config.json of Hugging Face, a configuration with
/// sections, or a command of ms-swift. One table (dialects.tsv) says what each name is to Megatron.
///
/// Shapes  A path has names with dots between them; its last one is looked up. A name that the table does not
///         have is Megatron's own if Megatron has such an argument; not so in a config.json.
/// Exact   Two paths that give an argument different values leave it unresolved: nobody has said which one
///         counts.

#include <string>
#include <string_view>
#include <vector>

#include "verify/run_arguments/run_arguments.h"

namespace verify {

struct NamedValue {
  std::string path;                 // "model.tensor_model_parallel_size"
  std::vector<std::string> values;  // "null": it is not given
  int line = 0;
};

struct Translation {
  std::vector<RunArgument> given;
  std::vector<Unresolved> unresolved;
  std::vector<std::string> unused;  // paths that say nothing about an argument
};

/// Translates the values of "huggingface", "nested" or "swift".
Translation translated(std::string_view dialect, const std::vector<NamedValue>& named);

/// Whether the values of "nested" give an argument that is used.
bool gives_used_argument(const std::vector<NamedValue>& named);

/// Returns Megatron's name of an argument of "swift"; the name itself where the table has none.
std::string name_of_swift(const std::string& name);

/// Returns the names, those beyond the first `most` as a number: "a, b and 12 more".
std::string first_names(const std::vector<std::string>& names, std::size_t most);

}  // namespace verify
