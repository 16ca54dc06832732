#include "verify/run/python_command.h"

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <fmt/format.h>
#include <iterator>
#include <string_view>
#include <utility>

#include "verify/output/refusal_table.h"

namespace verify {

namespace {

constexpr const char* kWhere = "the words after --";

/// What an option of the interpreter takes.
enum class Takes {
  nothing,
  value,       // the rest of its word, or the next word
  program,     // so, and all further words are the program's arguments
  no_program,  // the interpreter says something and ends, or reads a file as run does not
};

struct OptionRow {
  std::string_view option;
  Takes takes;
};

/// The options of Python 3.9 to 3.14 that are more than a flag.
constexpr OptionRow kOptions[] = {
    {"-c", Takes::program},
    {"-m", Takes::program},
    {"-W", Takes::value},
    {"-X", Takes::value},
    {"--check-hash-based-pycs", Takes::value},
    {"-V", Takes::no_program},
    {"--version", Takes::no_program},
    {"-h", Takes::no_program},
    {"-?", Takes::no_program},
    {"--help", Takes::no_program},
    {"--help-all", Takes::no_program},
    {"--help-env", Takes::no_program},
    {"--help-xoptions", Takes::no_program},
    {"-x", Takes::no_program},
};

Takes what_takes(std::string_view option) {
  const auto* const row = std::ranges::find(kOptions, option, &OptionRow::option);
  return row == std::end(kOptions) ? Takes::nothing : row->takes;
}

struct StarterRow {
  std::string_view name;
  const char* hint;
};

/// Programs that start others, which run does not follow.
constexpr const char* kOfPython = "the command that it starts: shardproof run --ranks N -- python PROGRAM";
constexpr StarterRow kStarters[] = {
    {"env", "the variables in front: NAME=VALUE shardproof run --ranks N -- python PROGRAM"},
    {"accelerate", kOfPython},
    {"deepspeed", kOfPython},
    {"srun", kOfPython},
    {"mpirun", kOfPython},
    {"mpiexec", kOfPython},
    {"bash", kOfPython},
    {"sh", kOfPython},
};

[[noreturn]] void refuse_starter(const std::string& word) {
  const auto* const row =
      std::ranges::find(kStarters, std::filesystem::path(word).filename().string(), &StarterRow::name);
  if (row == std::end(kStarters)) refuse_program(word + " is no interpreter of Python");
  refuse_by("run_program_missing/starter", kWhere, word, row->hint);
}

/// Reads words from the first one behind the interpreter on.
class CommandReader {
 public:
  explicit CommandReader(const std::vector<std::string>& words) : words_(words), read_{{words.front()}, {}} {}

  PythonCommand read() {
    while (read_.program.empty() && at_ < words_.size() && is_option(words_[at_]) && words_[at_] != "--")
      read_word(words_[at_++]);
    if (read_.program.empty() && at_ < words_.size() && words_[at_] == "--") ++at_;
    read_.program.insert(read_.program.end(), words_.begin() + static_cast<std::ptrdiff_t>(at_),
                         words_.end());
    return std::move(read_);
  }

 private:
  static bool is_option(const std::string& word) { return word.size() > 1 && word.starts_with('-'); }

  void read_word(const std::string& word) {
    if (word.starts_with("--")) return static_cast<void>(read_option(word, ""));
    for (std::size_t i = 1; i < word.size(); ++i)
      if (read_option({'-', word[i]}, word.substr(i + 1))) return;
  }

  /// Reads an option, and returns whether it takes the rest of its word.
  bool read_option(const std::string& option, const std::string& rest) {
    const Takes takes = what_takes(option);
    if (takes == Takes::no_program)
      refuse_program(fmt::format("run does not take {} of {}", option, words_.front()));
    std::vector<std::string>& to = takes == Takes::program ? read_.program : read_.interpreter;
    to.push_back(option);
    if (takes == Takes::nothing) return false;
    if (rest.empty() && at_ == words_.size()) refuse_program(fmt::format("{} lacks its value", option));
    to.push_back(rest.empty() ? words_[at_++] : rest);
    return true;
  }

  const std::vector<std::string>& words_;
  std::size_t at_ = 1;
  PythonCommand read_;
};

}  // namespace

void refuse_program(const std::string& fact) { refuse_by("run_program_missing", kWhere, fact); }

bool is_interpreter(const std::string& word) {
  return std::filesystem::path(word).filename().string().starts_with("python");
}

PythonCommand python_command(const std::vector<std::string>& words) {
  if (words.empty()) refuse_program("there are none");
  if (!is_interpreter(words.front())) refuse_starter(words.front());
  PythonCommand command = CommandReader(words).read();
  if (command.program.empty()) refuse_program(words.front() + " gets no program");
  const std::string& file = command.program.front();
  if (file == "-") refuse_program("'-' is standard input, which ranks do not get");
  if (file != "-m" && file != "-c" && !std::filesystem::exists(file))
    refuse_program("there is no file " + file);
  return command;
}

}  // namespace verify
