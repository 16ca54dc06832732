#include <algorithm>
#include <cstddef>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "verify/program/command_help.h"

namespace verify {

namespace {

// ---- bash

using Words = std::vector<std::string>;

/// Returns the options of a command, or of the program where there is none, with their dashes.
Words option_words(const std::vector<OptionInfo>& own, const ProgramInfo& program) {
  Words words;
  for (const OptionInfo& option : own) words.push_back(fmt::format("--{}", option.name));
  for (const OptionInfo& option : general_options(program)) {
    const std::string word = fmt::format("--{}", option.name);
    const bool is_of_program = option.readers == Reader{};
    if (std::ranges::find(words, word) == words.end() && (own.empty() || !is_of_program))
      words.push_back(word);
  }
  return words;
}

/// Returns the words that may follow --help.
Words topics(const std::vector<OptionInfo>& options) {
  Words words = {"all"};
  for (const SectionOptions& one : by_section(options)) words.emplace_back(one.section.name);
  return words;
}

/// Returns a line of a case statement, whose pattern is "COMMAND:--OPTION".
std::string case_of_value(std::string_view command, const OptionInfo& option, const ProgramInfo& program) {
  const Words values = known_values(option, program.cases);
  std::string action =
      values.empty() ? "kind=any" : fmt::format("kind=words words='{}'", fmt::join(values, " "));
  if (is_file(option)) action = "kind=file";
  if (is_list(option) && !values.empty()) action += " head=list";
  return fmt::format("    {}:--{}) {} ;;\n", command, option.name, action);
}

/// Returns what each option wants as its value: that of a command with its own meaning first.
std::string value_cases(const ProgramInfo& program) {
  std::string own, common;
  for (const OptionInfo& option : option_vocabulary()) {
    if (option.kind == OptionKind::flag) continue;
    for (const CommandInfo& command : program.commands) {
      for (const OptionMeaning& meaning : option.meanings) {
        if (overlap(meaning.readers, command.reader))
          own += case_of_value(command.name, option.as_read_by(command.reader), program);
      }
    }
    common += case_of_value("*", option, program);
  }
  return own + common;
}

/// Returns a pattern that the options without a value match.
std::string flags() {
  Words words;
  for (const OptionInfo& option : option_vocabulary()) {
    if (option.kind == OptionKind::flag) words.push_back(fmt::format("--{}", option.name));
  }
  return fmt::format("{}", fmt::join(words, "|"));
}

/// Returns a statement that sets variables by the command: its options, topics of help, and files.
std::string command_cases(const ProgramInfo& program) {
  std::string text, names;
  for (const CommandInfo& command : program.commands) {
    const std::vector<OptionInfo> options = own_options(command);
    text += fmt::format("    {}) options='{}' topics='{}' files={} ;;\n", command.name,
                        fmt::join(option_words(options, program), " "), fmt::join(topics(options), " "),
                        command.arguments.empty()  ? "no"
                        : takes_scenarios(command) ? "scenarios"
                                                   : "any");
    names += (names.empty() ? "" : " ") + std::string(command.name);
  }
  return fmt::format("    '') options='{}' topics='{}' commands='{}' ;;\n",
                     fmt::join(option_words({}, program), " "), fmt::join(topics(option_vocabulary()), " "),
                     names) +
         text;
}

/// Returns a script in which each mark, such as %PROGRAM%, is replaced. The last one may be in the others.
std::string filled(std::string script, const std::vector<std::pair<std::string_view, std::string>>& marks) {
  for (const auto& [mark, with] : marks) {
    for (std::size_t at = script.find(mark); at != std::string::npos;
         at = script.find(mark, at + with.size()))
      script.replace(at, mark.size(), with);
  }
  return script;
}

// ---- zsh

/// Returns text within single quotes of zsh; what has a meaning to _arguments is escaped.
std::string escaped(std::string_view text) {
  std::string result;
  for (const char letter : text) {
    if (letter == '\'') {
      result += "'\\''";
    } else {
      if (std::string_view("[]:\\").find(letter) != std::string_view::npos) result += '\\';
      result += letter;
    }
  }
  return result;
}

/// Returns what completes the value of an option.
std::string action_of(const OptionInfo& option, const ProgramInfo& program) {
  if (is_file(option)) return "_files";
  const std::vector<std::string> values = known_values(option, program.cases);
  if (values.empty()) return " ";
  const std::string words = fmt::format("{}", fmt::join(values, " "));
  return is_list(option) ? "_sequence compadd - " + words : "(" + words + ")";
}

/// Returns a line of the arguments of _arguments, for one option.
std::string specification(const OptionInfo& option, const ProgramInfo& program) {
  const bool is_flag = option.kind == OptionKind::flag;
  const bool may_be_repeated = option.kind == OptionKind::texts || option.kind == OptionKind::words;
  const std::string value =
      is_flag ? "" : fmt::format(":{}:{}", escaped(value_text(option)), action_of(option, program));
  return fmt::format("        '{}--{}{}[{}]{}' \\\n", may_be_repeated ? "*" : "", option.name,
                     is_flag ? "" : "=", escaped(option.help), value);
}

std::string command_case(const CommandInfo& command, const ProgramInfo& program) {
  std::string text = fmt::format("    {})\n      _arguments \\\n", command.name);
  std::vector<OptionInfo> options = own_options(command);
  for (const OptionInfo& option : general_options(program)) {
    if (option.readers == kEverybody && option.kind == OptionKind::flag) options.push_back(option);
  }
  for (const OptionInfo& option : options) text += specification(option, program);
  if (command.arguments.empty()) {
    text += "        && return\n";
  } else if (takes_scenarios(command)) {
    text += "        '*:scenario:_files -g \"*.ini\"' && return\n";
  } else {
    text += "        '*:file:_files' && return\n";
  }
  return text + "      ;;\n";
}

}  // namespace

std::string bash_completion(const ProgramInfo& program) {
  return filled(
#include "completion.bash.inc"
      , {{"%FLAGS%", flags()},
         {"%COMMANDS%", command_cases(program)},
         {"%VALUES%", value_cases(program)},
         {"%PROGRAM%", program.called}});
}

std::string zsh_completion(const ProgramInfo& program) {
  std::string commands, general, cases;
  for (const CommandInfo& command : program.commands) {
    commands += fmt::format("    '{}:{}'\n", command.name, escaped(command.summary));
    cases += command_case(command, program);
  }
  for (const OptionInfo& option : general_options(program)) general += specification(option, program);
  return filled(
#include "completion.zsh.inc"
      ,
      {{"%COMMANDS%", commands}, {"%GENERAL%", general}, {"%CASES%", cases}, {"%PROGRAM%", program.called}});
}

}  // namespace verify
