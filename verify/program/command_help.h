#pragma once

/// What the program says of itself, made from the tables of commands (command_info.h) and options
/// (option_vocabulary.h): pages of help, the manual page in the language of man(7), and scripts with which
/// bash and zsh complete a command line: commands, the options that a command reads, their values where all
/// of them are known, and scenario files. CMake writes the manual page and the scripts when the program is
/// linked, and installs them where man and the shells look for them.
///
///   PROGRAM --help                  the overview: commands, and the options that all of them have
///   PROGRAM COMMAND --help          its usage, its options, examples and exit codes; where it has too many
///                                   options for a screen, their sections
///   PROGRAM COMMAND --help SECTION  the options of these sections; 'all' shows those of every section
///   PROGRAM --help SECTION          the same for all commands
///
/// Exact   A page of help is as wide as the terminal, from 60 to 100 columns. The scripts hold all words
///         themselves: they call no program and evaluate no text.
/// Errors  unknown_topic: a word after --help that is no section; unknown_command.

#include <string>
#include <vector>

#include "verify/cases/case_list.h"
#include "verify/program/command_info.h"
#include "verify/vocabulary/command_line.h"
#include "verify/vocabulary/option_vocabulary.h"

namespace verify {

// The words that the value of an option may be, where the program knows them all: group kinds, cases,
// properties, dtypes, planted programs and choices. Help and the completion of shells show them.

/// Returns the words, among `cases` where the option names a case; empty where the value may be anything.
std::vector<std::string> known_values(const OptionInfo& option, const CaseList& cases);

/// Whether the value is the path of a file.
bool is_file(const OptionInfo& option);

/// Whether the value is a list with commas between its words.
bool is_list(const OptionInfo& option);

/// Returns the page of help for which the command line asks.
std::string help_page(const ProgramInfo& program, const CommandLine& line, int columns);

/// Returns the overview, as --help shows it.
std::string overview(const ProgramInfo& program, int columns);

std::string man_page(const ProgramInfo& program);
std::string bash_completion(const ProgramInfo& program);
std::string zsh_completion(const ProgramInfo& program);

// What the pages are made of.

/// The options of a section.
struct SectionOptions {
  OptionSection section;
  std::vector<OptionInfo> options;
};

/// Returns the options by sections, without sections that have none.
std::vector<SectionOptions> by_section(const std::vector<OptionInfo>& options);

/// Returns what an option does, with the values that it takes, its default and the backends that it needs.
/// `command` may be several readers.
std::string sentence_of(const OptionInfo& option, Reader command, const CaseList& cases);

/// Returns the options that the program has whatever the command: those of every command, and its own.
std::vector<OptionInfo> general_options(const ProgramInfo& program);

/// Returns the options that a command reads, without those that every command has, but for --format.
std::vector<OptionInfo> own_options(const CommandInfo& command);

/// Returns the usage of a command, without its name: "[SCENARIO.ini...] [--option VALUE]... [--
/// COMMAND LINE]".
std::string usage_of(const CommandInfo& command);

}  // namespace verify
