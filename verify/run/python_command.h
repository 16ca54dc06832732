#pragma once

/// A command that starts a program in Python, read as the interpreter reads its words:
///
///   python_command({"python3", "-um", "train", "--steps", "2"})
///
/// has the interpreter {"python3", "-u"} and the program {"-m", "train", "--steps", "2"}.
///
/// Shapes  Short options may stand in one word. An option that the table does not have is a flag, which the
///         interpreter takes or refuses itself.
/// Errors  run_program_missing: the first word is no interpreter, or the others name no program that ranks
///         can run.

#include <string>
#include <vector>

namespace verify {

struct PythonCommand {
  std::vector<std::string> interpreter;  // with its options, each in a word
  std::vector<std::string> program;      // a file, -m MODULE or -c CODE, with its arguments
};

PythonCommand python_command(const std::vector<std::string>& words);

/// Whether a word is the name of an interpreter, or a path of one.
bool is_interpreter(const std::string& word);

/// Refuses words that start no program in Python; `fact` says why.
[[noreturn]] void refuse_program(const std::string& fact);

}  // namespace verify
