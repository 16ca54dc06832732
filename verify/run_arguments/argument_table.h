#pragma once

/// The table of Megatron's arguments (arguments.tsv, purposes.tsv): of each, whether it is used here, has no
/// effect on what is proved, or is not modelled, with a sentence that says so.
///
/// Shapes  Names are without leading dashes and with "-" in place of "_".
/// Source  Megatron-LM at d98e8a64ddf3 and Megatron Core 0.19.2: training/arguments.py, the dataclasses of
///         which it makes arguments, and the arguments of its functional tests and examples; arguments.py of
///         Megatron-LM at 8bfdd0cf5e46 and 47475de55851, and functional tests beside them. Those of
///         Megatron-DeepSpeed are there as far as they say that it runs. Defaults: what the parsers of these
///         versions, of five older ones and of the branch dev hold before they read a command line.

#include <string>
#include <string_view>
#include <vector>

namespace verify {

enum class ArgumentUse { used, without_effect, not_modelled };

/// What an argument that is not modelled leaves without proof. Each includes those before it.
enum class Unproved { nothing, memory, training, layers, groups };

/// How many words the parser takes behind the name. No rule judges an argument of unknown shape: a flag of an
/// older version, or one that a training script adds.
enum class ArgumentShape {
  unknown,
  flag,    // no word
  value,   // one word
  list,    // one word or more
  maybes,  // any number of words
};

/// Whether the one word of an argument is a number. A few whole numbers that newer versions may read as
/// decimal ones, such as the rotary base, count as those.
enum class NumberKind { none, whole, decimal };

struct ArgumentRow {
  std::string spelling;  // the name as Megatron's parser knows it, which may have "_"
  ArgumentUse use = ArgumentUse::used;
  Unproved unproved = Unproved::nothing;
  std::string sentence;                // what it is used for, why it has no effect, or what is not modelled
  std::vector<std::string> only_with;  // it matters only where one of these is set; empty: always
  ArgumentShape shape = ArgumentShape::unknown;
  NumberKind number = NumberKind::none;
  bool has_plain_words = false;  // the words of a list are numbers or names: a comma in one is a mistake
  std::string in_log_if_absent;  // besides None, False and []; "" where it is not known, or is modelled
  std::vector<std::string> names_in_logs;  // after "!", True stands for the absence of the argument
};

/// Reads the text of both tables. A row with another number of cells than the first one, a word that is not
/// known and a name that stands twice are mistakes of this project (SIM_CHECK).
std::vector<ArgumentRow> read_argument_rows(std::string_view arguments, std::string_view purposes);

/// Returns the row of an argument; null where the table has no such name.
const ArgumentRow* find_argument(std::string_view name);

bool is_used_argument(std::string_view name);
ArgumentShape shape_of_argument(std::string_view name);
NumberKind number_kind_of_argument(std::string_view name);
bool has_plain_words(std::string_view name);

/// Whether Megatron's parser knows a name, written without its dashes, with the "_" that it has.
bool is_known_with_underscores(std::string_view written);

/// The argument that a log means by another name ("add-bias-linear" of --disable-bias-linear), and whether
/// True stands for its absence.
struct LogName {
  std::string argument;
  bool is_negated = false;
};
const LogName* find_log_name(std::string_view name);

/// Returns all names of the table.
std::vector<std::string> argument_names();

}  // namespace verify
