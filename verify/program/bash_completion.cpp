#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "verify/program/command_help.h"

namespace verify {

namespace {

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

constexpr const char* kCompletion =
    R"script(# Completion of @PROGRAM@ for bash, written by '@PROGRAM@ --completion bash'.

_@PROGRAM@() {
  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} command= i
  local kind= words= head= options= topics= commands= files=no
  COMPREPLY=()

  # The command is the first word that is neither an option nor the value of one. Bash takes "--option=value"
  # for three words.
  for ((i = 1; i < COMP_CWORD; i++)); do
    case ${COMP_WORDS[i]} in
      =) i=$((i + 1)) ;;
      @FLAGS@) ;;
      -*) [[ ${COMP_WORDS[i + 1]} == = ]] || i=$((i + 1)) ;;
      *) command=${COMP_WORDS[i]}; break ;;
    esac
  done
  case $command in
@COMMANDS@  esac

  if [[ $word == = ]]; then
    word=
  elif [[ $before == = ]]; then
    before=${COMP_WORDS[COMP_CWORD - 2]}
  fi
  case $command:$before in
@VALUES@    *:--help) kind=words words=$topics ;;
  esac
  # Behind -- stands the command line of a run.
  for ((i = 1; i < COMP_CWORD; i++)); do
    [[ ${COMP_WORDS[i]} == -- ]] && kind=file
  done
  if [[ -z $kind ]]; then
    if [[ $word == -* || $files == no && -z $commands ]]; then
      kind=words words=$options
    elif [[ -n $commands ]]; then
      kind=words words=$commands
    elif [[ $files == any ]]; then
      kind=file
    else
      kind=scenario
    fi
  fi

  case $kind in
    words)
      # Of a list with commas, the word behind the last comma is completed.
      if [[ $head == list && $word == *,* ]]; then head=${word%,*},; else head=; fi
      mapfile -t COMPREPLY < <(compgen -P "$head" -W "$words" -- "${word##*,}")
      ;;
    file)
      compopt -o filenames 2>/dev/null
      mapfile -t COMPREPLY < <(compgen -f -- "$word")
      ;;
    scenario)
      compopt -o filenames 2>/dev/null
      mapfile -t COMPREPLY < <(compgen -d -- "$word"; compgen -f -X '!*.ini' -- "$word")
      ;;
  esac
}
complete -F _@PROGRAM@ @PROGRAM@
)script";

void replace_all(std::string& text, std::string_view mark, std::string_view with) {
  for (std::size_t at = text.find(mark); at != std::string::npos; at = text.find(mark, at + with.size()))
    text.replace(at, mark.size(), with);
}

}  // namespace

std::string bash_completion(const ProgramInfo& program) {
  std::string script = kCompletion;
  replace_all(script, "@FLAGS@", flags());
  replace_all(script, "@COMMANDS@", command_cases(program));
  replace_all(script, "@VALUES@", value_cases(program));
  replace_all(script, "@PROGRAM@", program.called);
  return script;
}

}  // namespace verify
