#pragma once

/// What the program says of itself: its commands, each with a sentence, examples and exit codes. The page of
/// help, the manual page and the completion of shells are made from this table (commands.tsv) and from the
/// table of options (option_vocabulary.h); a command that is added here is in all of them.
///
/// Errors  unknown_command: there is no such command.

#include <string>
#include <vector>

#include "verify/cases/case_list.h"
#include "verify/program/commands.h"
#include "verify/vocabulary/option_vocabulary.h"

namespace verify {

/// A line that can be typed as it stands, where the folder scenarios/ is.
struct CommandExample {
  std::string says;   // what the line does, as a sentence
  std::string words;  // the line after the name of the program
  int exit_code = kVerified;
};

struct ExitCodeInfo {
  int code;
  std::string means;  // a sentence
};

struct CommandInfo {
  std::string name;
  std::string arguments = {};  // the files that it takes, as the usage shows them; "": none
  std::string summary = {};    // a sentence for the list of commands
  std::string about = {};      // a paragraph for its own page
  Reader reader;               // marks the options that it reads
  std::vector<CommandExample> examples = {};
  std::vector<ExitCodeInfo> exit_codes = {};
  int (*run)(const Call& call) = nullptr;  // null for a program that runs its commands itself (prove.h)
};

/// A program with commands: shardproof, or that of a project with layers of its own.
struct ProgramInfo {
  std::string called;  // the name under which a shell finds it
  std::string purpose;
  std::vector<CommandInfo> commands;
  const CaseList& cases;
  bool has_pages;       // whether it writes a manual page and scripts of completion
  std::string closing;  // where to read more, for the end of the overview
};

/// Whether the files that a command takes are scenarios.
bool takes_scenarios(const CommandInfo& command);

/// The program shardproof.
const ProgramInfo& shardproof_program();

/// Returns the command of this name.
const CommandInfo& command_named(const ProgramInfo& program, const std::string& name);

// The commands of a program that proves the layers of another project (verify/prove.h), as help shows them.
// The examples are of the project's own first case.

/// `called` is the program as a shell finds it. There must be a case.
ProgramInfo project_program(const std::string& called, const CaseList& cases);

}  // namespace verify
