#include <algorithm>
#include <cctype>
#include <cstddef>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <map>
#include <sstream>
#include <string_view>
#include <utility>

#include "verify/output/wrapped_text.h"
#include "verify/program/command_help.h"

namespace verify {

namespace {

constexpr std::size_t kColumns = 68;  // of an example, which is indented on a screen of 80 columns

/// Returns text as troff shows it letter by letter: what has a meaning to troff is escaped, and hyphens stay
/// hyphens that can be copied into a shell.
std::string plain(std::string_view text) {
  static constexpr std::pair<char, const char*> kEscapes[] = {
      {'\\', "\\(rs"}, {'-', "\\-"},   {'\'', "\\(aq"}, {'`', "\\(ga"},
      {'^', "\\(ha"},  {'~', "\\(ti"}, {'"', "\\(dq"}};
  std::string escaped;
  for (const char letter : text) {
    const auto* found = std::find_if(std::begin(kEscapes), std::end(kEscapes),
                                     [&](const auto& escape) { return escape.first == letter; });
    found == std::end(kEscapes) ? escaped.push_back(letter)
                                : static_cast<void>(escaped.append(found->second));
  }
  return escaped.starts_with('.') ? "\\&" + escaped : escaped;
}

std::string bold(std::string_view text) { return fmt::format("\\fB{}\\fR", plain(text)); }
std::string italic(std::string_view text) { return fmt::format("\\fI{}\\fR", plain(text)); }

/// Returns lines of a shell, each in bold.
std::string bold_lines(const std::string& text) {
  std::istringstream lines(text);
  std::string all;
  for (std::string line; std::getline(lines, line);) all += bold(line) + "\n";
  return all;
}

std::string upper(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char letter) { return static_cast<char>(std::toupper(letter)); });
  return text;
}

std::string heading(const char* macro, const std::string& text) {
  return fmt::format(".{} \"{}\"\n", macro, plain(text));
}

/// Returns a paragraph whose first line, the tag, hangs.
std::string tagged(const std::string& tag, const std::string& text) {
  return fmt::format(".TP\n{}\n{}\n", tag, plain(text));
}

std::string option_text(const OptionInfo& option, const ProgramInfo& program) {
  const std::string value = value_text(option);
  std::string text = sentence_of(option, kEverybody, program.cases);
  if (option.readers != kEverybody && option.readers != Reader{})
    text += fmt::format(" Read by {}.", text_of_readers(option));
  return tagged(bold(fmt::format("--{}", option.name)) + (value.empty() ? "" : " " + italic(value)), text);
}

std::string synopsis(const ProgramInfo& program) {
  std::string text = heading("SH", "SYNOPSIS");
  for (const CommandInfo& command : program.commands)
    text += fmt::format("{} {}\n.br\n", bold(program.called + " " + command.name), plain(usage_of(command)));
  return text + fmt::format("{} [{}]\n", bold(program.called), bold("--help"));
}

std::string commands(const ProgramInfo& program) {
  std::string text = heading("SH", "COMMANDS");
  for (const CommandInfo& command : program.commands) {
    text += heading("SS", fmt::format("{} {}", command.name, command.arguments));
    text += plain(command.about) + "\n";
    for (const CommandExample& example : command.examples) {
      text += fmt::format(".PP\n{}\n.RS 4\n.nf\n{}.fi\n.RE\n", plain(example.says),
                          bold_lines(wrapped_command(0, program.called + " " + example.words, kColumns)));
    }
  }
  return text;
}

std::string options(const ProgramInfo& program) {
  std::string text =
      heading("SH", "OPTIONS") +
      plain(
          "The names are Megatron's where Megatron has the option. N is a whole number from 1 on, "
          "unless the text says otherwise.") +
      "\n";
  for (const auto& [section, own] : by_section(option_vocabulary())) {
    text += heading("SS", section.title) + plain(section.summary) + "\n";
    for (const OptionInfo& option : own)
      for (const OptionInfo& variant : variants_of(option)) text += option_text(variant, program);
  }
  return text;
}

/// Returns every exit code with what it means to which commands.
std::string exit_status(const ProgramInfo& program) {
  std::map<int, std::vector<std::pair<std::string, std::vector<std::string>>>> codes;
  for (const CommandInfo& command : program.commands) {
    for (const ExitCodeInfo& exit : command.exit_codes) {
      auto& meanings = codes[exit.code];
      auto found = std::ranges::find_if(meanings, [&](const auto& m) { return m.first == exit.means; });
      if (found == meanings.end()) found = meanings.insert(found, {exit.means, {}});
      found->second.emplace_back(command.name);
    }
  }
  std::string text = heading("SH", "EXIT STATUS");
  for (const auto& [code, meanings] : codes) {
    std::string means;
    for (const auto& [sentence, names] : meanings)
      means += fmt::format("{}{}: {}", means.empty() ? "" : " ", fmt::join(names, ", "), sentence);
    text += tagged(bold(std::to_string(code)), means);
  }
  return text;
}

}  // namespace

std::string man_page(const ProgramInfo& program) {
  return fmt::format(".\\\" Written by '{} --man'.\n.TH {} 1 \"\" \"{} {}\" \"User Commands\"\n",
                     program.called, upper(program.called), program.called, SHARDPROOF_VERSION) +
         heading("SH", "NAME") +
         fmt::format("{} \\- {}\n", program.called, plain("proves model-parallel layouts without a GPU")) +
         synopsis(program) + heading("SH", "DESCRIPTION") + plain(program.purpose) + "\n.PP\n" +
         plain(program.closing) + "\n" + commands(program) + options(program) + exit_status(program) +
         heading("SH", "FILES") +
         tagged(italic("PREFIX/share/shardproof/scenarios"),
                "The scenarios of an installed program. Each is a text file of lines 'name = value'; the "
                "names are "
                "those of the options, without '--'.") +
         heading("SH", "SEE ALSO") + bold("mpirun") + "(1)\n";
}

}  // namespace verify
