#include <fmt/format.h>
#include <fmt/ranges.h>

#include "verify/program/command_help.h"

namespace verify {

namespace {

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

std::string zsh_completion(const ProgramInfo& program) {
  std::string commands, general, cases;
  for (const CommandInfo& command : program.commands) {
    commands += fmt::format("    '{}:{}'\n", command.name, escaped(command.summary));
    cases += command_case(command, program);
  }
  for (const OptionInfo& option : general_options(program)) general += specification(option, program);
  return fmt::format(
      "#compdef {0}\n# Completion of {0} for zsh, written by '{0} --completion zsh'.\n\n"
      "_{0}() {{\n"
      "  local curcontext=$curcontext state line\n"
      "  typeset -A opt_args\n"
      "  local -a commands\n"
      "  commands=(\n{1}  )\n"
      "  _arguments -C \\\n{2}"
      "        '1: :->command' \\\n"
      "        '*:: :->words' && return\n"
      "  if [[ $state == command ]]; then\n"
      "    _describe -t commands command commands\n"
      "    return\n"
      "  fi\n"
      "  case $words[1] in\n{3}"
      "  esac\n"
      "  return 1\n"
      "}}\n\n"
      "_{0} \"$@\"\n",
      program.called, commands, general, cases);
}

}  // namespace verify
