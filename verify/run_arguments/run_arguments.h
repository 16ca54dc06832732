#pragma once

/// The document of a training run: its arguments, its environment and its world, as what was read gives them,
/// before anybody asks what they mean. The readers of run files return it (run_log.h, run_yaml.h,
/// run_script.h); run_document.h writes it as a file, and reads that. What works with it knows no files.
///
/// Shapes  Names are Megatron's without the leading dashes, and with "-" in place of "_": "seq-length". An
///         argument that a file gives several times stands several times; the last one counts, as in
///         argparse. A document without a name is one of no run: it has no arguments.
/// Errors  All readers refuse: run_file_text: a file that is no text in UTF-8; run_file_size: a file, a line
///         or a list beyond the limits below; run_without_arguments: a file in which no argument is found.
/// Exact   A reader executes nothing, opens no other file, and reads no variable of the environment.

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace verify {

inline constexpr std::size_t kMostScriptBytes = std::size_t{4} << 20U;  // of a script or a YAML file
inline constexpr std::size_t kMostLogBytes = std::size_t{64} << 30U;
inline constexpr std::size_t kMostRunArguments = 10'000;

/// What a run was read from; a command is one that was pasted.
enum class RunFileKind { log, yaml, script, command };

/// Returns "log", "yaml", "script" or "command".
const char* run_file_kind_name(RunFileKind kind);

/// The values that --set gives to variables.
using RunVariables = std::map<std::string, std::string>;

struct RunArgument {
  std::string name;
  std::vector<std::string> values;  // as written; empty for a flag that stands alone
  int line = 0;                     // of what was read, from 1; 0 where it has no lines
  bool is_option = false;           // an option of this program replaces what was read
};

/// What cannot be known without executing the file.
struct Unresolved {
  std::string text;      // as the file writes it: "${NNODES}", "$(nproc)"
  std::string variable;  // the name that --set takes; "" where there is none
  std::string argument;  // the argument whose value it is, or a part of; "" where it is no value
  int line = 0;
  std::string reason;
  bool is_of_world = false;           // a factor of the number of processes
  std::vector<std::string> appended;  // the words that it may be, if it is no other ones
};

struct RunArguments {
  RunFileKind kind = RunFileKind::script;
  std::vector<RunArgument> given;
  std::vector<Unresolved> unresolved;
  std::vector<RunArgument>
      with_underscores;            // names as a command writes them, where the table has "-" for "_"
  std::string script;              // the name of the Python file that a command starts; "" where none does
  std::vector<std::string> notes;  // sentences about how the file was read
  std::vector<std::string> contradictions;  // processes, nodes and GPUs that cannot start so: launch_world.h
  std::optional<std::int64_t> world_size;
  std::optional<std::int64_t> gpus_per_node;
  std::map<std::string, std::string> environment;  // variables that the file sets for the run
  std::vector<std::string> variables;              // those that a script gives known values
  std::vector<std::string> other_texts;            // of files that a script names, and that are read in it
  std::string world_size_source;                   // "--nnodes 4 x --nproc_per_node 8 of torchrun, line 12"
  std::string name;  // of what was read: the path of a file, "standard input" or "the command"
  RunVariables set;  // by --set

  bool is_given() const { return !name.empty(); }
  /// Whether the arguments are words for Megatron's parser, which it has not read yet.
  bool has_words() const { return kind == RunFileKind::script || kind == RunFileKind::command; }
};

/// Returns the name without leading dashes, with "-" in place of "_".
std::string run_argument_name(std::string_view written);

/// Returns the text as a whole number, where it is one that fits into 64 bits.
std::optional<std::int64_t> whole_number(std::string_view text);

/// Returns values as Python prints them: [1, 2] and ['a', "b"] (and tuples) are several, without quotes and
/// brackets; every other value is one, as it is printed. A nested list stays as it is printed.
std::vector<std::string> python_values(std::string_view printed);

}  // namespace verify
