#pragma once

/// The table of Megatron's arguments: of each, whether it is used here, has no effect on what is proved, or
/// is not modelled, with a sentence that says so.
///
/// Shapes  Names are without leading dashes and with "-" in place of "_". Arguments of one purpose share a
///         row.
/// Source  Megatron-LM at d98e8a64ddf3 and Megatron Core 0.19.2: training/arguments.py, the dataclasses of
///         which it makes arguments, and the arguments of its functional tests and examples; arguments.py of
///         Megatron-LM at 8bfdd0cf5e46 and 47475de55851, and functional tests beside them. Those of
///         Megatron-DeepSpeed are there as far as they say that it runs.

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace verify {

enum class ArgumentUse { used, without_effect, not_modelled };

/// What an argument that is not modelled leaves without proof. Each includes those before it.
enum class Unproved { nothing, memory, training, layers, groups };

struct ArgumentRow {
  ArgumentUse use;
  Unproved unproved;
  const char* sentence;  // what it is used for, why it has no effect, or what is not modelled
  std::vector<const char*> names;
  std::vector<const char*> only_with;  // it matters only where one of these is set; empty: always
};

const std::vector<ArgumentRow>& argument_rows();

/// Returns the row of an argument; null where the table has no such name.
const ArgumentRow* find_argument(std::string_view name);

/// How a log spells an argument, where that is not the flag: the name of the variable in which the parser
/// keeps it, and whether True stands for the flag's absence ("add-bias-linear" of --disable-bias-linear).
struct LogName {
  const char* name;
  const char* flag;
  bool is_negated;
};
const LogName* find_log_name(std::string_view name);

/// Returns all names of the table.
std::vector<std::string> argument_names();

}  // namespace verify
