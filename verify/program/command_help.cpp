#include "verify/program/command_help.h"

#include <algorithm>
#include <cstddef>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <iterator>
#include <string_view>
#include <utility>

#include "sim/layout/kind_table.h"
#include "verify/campaign/case_request.h"
#include "verify/cases/case.h"
#include "verify/checks/planted_programs.h"
#include "verify/faults/fault.h"
#include "verify/output/refusal_table.h"
#include "verify/output/wrapped_text.h"
#include "verify/properties/properties.h"
#include "verify/requests/backend_choice.h"
#include "verify/vocabulary/nearest_name.h"

namespace verify {

namespace {

constexpr std::string_view kMore = ",...";

constexpr std::size_t kIndent = 34;           // where the sentences of options begin
constexpr std::size_t kMostOnAScreen = 40;    // with more options, a page shows their sections
constexpr std::size_t kMostKnownValues = 10;  // with more of them, a sentence does not name them
constexpr std::string_view kAll = "all";

using Words = std::vector<std::string>;
using Options = std::vector<OptionInfo>;

bool is_general(const OptionInfo& option) {
  return option.readers == kEverybody || option.readers == Reader{};
}

/// The readers of the options that a page lists, and the cases that their sentences name.
struct Listing {
  Reader command;
  const CaseList& cases;
  std::size_t columns;
  bool names_readers = false;  // whether each option says who reads it
};

std::string option_text(const OptionInfo& option, const Listing& listing) {
  const std::string value = value_text(option);
  std::string text = sentence_of(option, listing.command, listing.cases);
  if (listing.names_readers && !is_general(option))
    text += fmt::format(" Read by {}.", text_of_readers(option));
  return wrapped(fmt::format("  --{}{}{}", option.name, value.empty() ? "" : " ", value), kIndent, text,
                 listing.columns);
}

std::string section_text(const SectionOptions& section, const Listing& listing) {
  const std::string title = fmt::format("{}. {}", section.section.title, section.section.summary);
  std::string text = "\n" + wrapped("", 0, title, listing.columns);
  for (const OptionInfo& option : section.options) text += option_text(option, listing);
  return text;
}

/// Returns the sections that these words name. A word that ends in ".ini" is a scenario, of which help says
/// nothing.
std::vector<SectionOptions> named_sections(const Words& words, const Options& options,
                                           const std::string& help) {
  std::vector<SectionOptions> sections = by_section(options);
  Words known = {std::string(kAll)};
  for (const SectionOptions& one : sections) known.emplace_back(one.section.name);
  for (const std::string& word : words) {
    if (word.ends_with(".ini") || std::ranges::find(known, word) != known.end()) continue;
    const std::string nearest = nearest_name(word, known);
    refuse_by("unknown_topic", word, fmt::join(known, ", "), nearest.empty() ? help : help + " " + nearest);
  }
  std::erase_if(sections, [&](const SectionOptions& one) {
    return std::ranges::none_of(words,
                                [&](const auto& word) { return word == kAll || word == one.section.name; });
  });
  return sections;
}

/// Returns the sections with what their options are about, for a command with too many options.
std::string sections_text(const Options& options, const std::string& help, std::size_t columns) {
  std::string text =
      wrapped("", 0,
              fmt::format("Options. '{0} SECTION' explains those of a section, '{0} all' explains all {1}.",
                          help, options.size()),
              columns);
  for (const auto& [section, own] : by_section(options))
    text += wrapped(fmt::format("  {:<12} {:>3}", section.name, own.size()), 20, section.summary, columns);
  return text;
}

constexpr const char* kLegend =
    "Options. N is a whole number from 1 on, unless the text says otherwise. '--flag=false' turns off a flag "
    "that a scenario sets. '--tp', '--pp', '--dp', '--cp', '--ep', '--etp', '--vp', '--sp', '--mbs', "
    "'--gbs', "
    "'--layers', '--hidden', '--heads', '--seq' and '--vocab' are short names.";

std::string options_text(const Options& options, const Listing& listing) {
  std::string text = wrapped("", 0, kLegend, listing.columns);
  for (const SectionOptions& section : by_section(options)) text += section_text(section, listing);
  return text;
}

std::string examples_text(const ProgramInfo& program, const CommandInfo& command, std::size_t columns) {
  std::string text = "\nExamples\n";
  for (const CommandExample& example : command.examples) {
    const std::string code =
        example.exit_code == kVerified ? "" : fmt::format(" The exit code is {}.", example.exit_code);
    text += wrapped("", 2, example.says + code, columns) +
            wrapped_command(4, program.called + " " + example.words, columns);
  }
  return text;
}

std::string exit_codes_text(const CommandInfo& command, std::size_t columns) {
  std::string text = "\nExit codes\n";
  for (const ExitCodeInfo& exit : command.exit_codes)
    text += wrapped(fmt::format("  {:<3}", exit.code), 7, exit.means, columns);
  return text;
}

std::string command_page(const ProgramInfo& program, const CommandInfo& command, const Words& topics,
                         std::size_t columns) {
  const std::string help = fmt::format("{} {} --help", program.called, command.name);
  const Options options = own_options(command);
  const Listing listing = {command.reader, program.cases, columns};
  const std::vector<SectionOptions> sections = named_sections(topics, options, help);
  if (!sections.empty() && std::ranges::find(topics, kAll) == topics.end()) {
    std::string text;
    for (const SectionOptions& section : sections) text += section_text(section, listing);
    return text.substr(1);
  }
  const bool is_short = sections.empty() && options.size() > kMostOnAScreen;
  return fmt::format("usage: {} {} {}\n\n", program.called, command.name, usage_of(command)) +
         wrapped("", 0, command.about, columns) + "\n" +
         (is_short ? sections_text(options, help, columns) : options_text(options, listing)) +
         examples_text(program, command, columns) + exit_codes_text(command, columns);
}

/// Returns the options of these sections for all commands of the program.
std::string page_of_all(const ProgramInfo& program, const Words& topics, std::size_t columns) {
  Reader commands = {};
  for (const CommandInfo& command : program.commands) commands = commands | command.reader;
  Options options;
  for (const OptionInfo& option : option_vocabulary()) {
    for (const OptionInfo& variant : variants_of(option)) {
      const bool is_on_a_backend = program.has_pages && overlap(variant.readers, kEveryBackend);
      if (overlap(variant.readers, commands) || is_on_a_backend) options.push_back(variant);
    }
  }
  std::string text = wrapped("", 0, kLegend, columns);
  const Listing listing = {commands | kEveryBackend, program.cases, columns, program.has_pages};
  for (const SectionOptions& section : named_sections(topics, options, program.called + " --help"))
    text += section_text(section, listing);
  return text;
}

}  // namespace

std::vector<SectionOptions> by_section(const std::vector<OptionInfo>& options) {
  std::vector<SectionOptions> sections;
  for (const OptionSection& section : option_sections()) {
    SectionOptions one{.section = section};
    std::ranges::copy_if(options, std::back_inserter(one.options),
                         [&](const OptionInfo& option) { return option.section == section.name; });
    if (!one.options.empty()) sections.push_back(std::move(one));
  }
  return sections;
}

std::vector<std::string> known_values(const OptionInfo& option, const CaseList& cases) {
  if (!option.choices.empty()) return option.choices;
  std::string_view value = option.value;
  if (is_list(option)) value.remove_suffix(kMore.size());
  if (value == "KIND") return sim::all_kind_names();
  if (value == "DTYPE") return dtype_names();
  if (value == "CASE") return names_of(cases, [](const auto& one) { return one->name(); });
  if (value == "NAME") return names_of(fault_table());
  if (value == "PROPERTY") return names_of(all_properties());
  if (value == "PROGRAM") return names_of(planted_programs());
  return {};
}

bool is_file(const OptionInfo& option) {
  const std::string_view value = option.value;
  return value == "FILE" || value == "FOLDER";
}

bool is_list(const OptionInfo& option) { return std::string_view(option.value).ends_with(kMore); }

std::string usage_of(const CommandInfo& command) {
  const bool reads_a_run = overlap(option_named("command").readers, command.reader);
  return fmt::format("{}{}[--option VALUE]...{}", command.arguments, command.arguments.empty() ? "" : " ",
                     reads_a_run ? " [-- COMMAND LINE]" : "");
}

std::vector<OptionInfo> general_options(const ProgramInfo& program) {
  Options options;
  for (const OptionInfo& option : option_vocabulary()) {
    if (option.readers == kEverybody || (program.has_pages && option.readers == Reader{}))
      options.push_back(option);
  }
  return options;
}

std::vector<OptionInfo> own_options(const CommandInfo& command) {
  Options options = options_of(command.reader);
  std::erase_if(options, [](const OptionInfo& o) { return is_general(o) && o.kind == OptionKind::flag; });
  return options;
}

std::string sentence_of(const OptionInfo& option, Reader command, const CaseList& cases) {
  Words notes;
  if (option.kind == OptionKind::count) notes.emplace_back("0 or more");
  const Words values = option.kind == OptionKind::choice ? Words{} : known_values(option, cases);
  if (!values.empty() && values.size() <= kMostKnownValues)
    notes.push_back(fmt::format("of {}", fmt::join(values, ", ")));
  if (!option.fallback.empty()) notes.push_back(fmt::format("default: {}", option.fallback));
  OptionInfo on_backends = option;
  on_backends.readers = option.readers & kEveryBackend;
  if (!overlap(command, Reader::check)) on_backends.readers = on_backends.readers & ~Reader::spread;
  const bool is_on_backends_alone = on_backends.readers != Reader{} && !overlap(option.readers, command);
  if (is_on_backends_alone) notes.push_back("only with " + text_of_readers(on_backends));
  if (notes.empty()) return option.help;
  const std::string sentence = option.help;
  return fmt::format("{} ({}).", sentence.substr(0, sentence.size() - 1), fmt::join(notes, "; "));
}

std::string overview(const ProgramInfo& program, int given_columns) {
  const auto columns = static_cast<std::size_t>(std::clamp(given_columns, 60, 100));
  std::string text =
      wrapped("", 0, program.purpose, columns) +
      fmt::format("\nusage: {} COMMAND [SCENARIO.ini...] [--option VALUE]...\n\nCommands\n", program.called);
  for (const CommandInfo& command : program.commands)
    text += wrapped(fmt::format("  {}", command.name), 12, command.summary, columns);
  text += "\nOptions of the program\n";
  const Listing listing = {kEverybody, program.cases, columns};
  for (const OptionInfo& option : general_options(program)) text += option_text(option, listing);
  text += "\nMore\n";
  const std::pair<const char*, const char*> calls[] = {
      {"COMMAND --help", "explains a command: its options, examples and exit codes"},
      {"--help all", "explains every option of every command"}};
  for (const auto& [words, says] : calls)
    text += wrapped(fmt::format("  {} {}", program.called, words), kIndent, says, columns);
  if (program.has_pages)
    text +=
        wrapped("  man " + program.called, kIndent, "shows the same, once the program is installed", columns);
  return text + "\n" + wrapped("", 0, program.closing, columns);
}

std::string help_page(const ProgramInfo& program, const CommandLine& line, int given_columns) {
  const auto columns = static_cast<std::size_t>(std::clamp(given_columns, 60, 100));
  if (line.command.empty()) return overview(program, given_columns);
  const auto is_named = [&](const auto& row) { return line.command == row.name; };
  const auto& commands = program.commands;
  const bool is_command = std::ranges::any_of(commands, is_named);
  const bool is_section = std::ranges::any_of(option_sections(), is_named);
  if (!is_command && (is_section || line.command == kAll)) {
    Words topics = line.scenarios;
    topics.push_back(line.command);
    return page_of_all(program, topics, columns);
  }
  return command_page(program, command_named(program, line.command), line.scenarios, columns);
}

}  // namespace verify
