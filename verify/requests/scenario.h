#pragma once

/// A scenario: an INI file of options without the leading "--" ("world-size = 16", flags as "swiglu = true").
/// Its first line is a comment that names its source. A scenario has no sections, and no options of output or
/// of this process.
///
/// Errors  scenario_missing: there is no file of this name, or it is a folder, a named pipe, a socket or a
///         device, none of which is opened; scenario_syntax: the file cannot be read, is too large, or is not
///         of this form; not_in_scenario: an option of output or of this process; those of command_line.h.

#include <string>
#include <vector>

#include "verify/megatron_rules/run_of_file.h"
#include "verify/vocabulary/command_line.h"
#include "verify/vocabulary/settings.h"

namespace verify {

struct Scenario {
  std::string path;    // empty for a scenario made of command-line options
  std::string name;    // the file's name without ".ini"
  std::string source;  // its first line, without the comment sign
  Settings settings;
  RunOfFile run = {};  // whose options are among the settings; of no run without --from
};

/// Reads a scenario file.
Scenario read_scenario(const std::string& path);
/// Reads a scenario file; options of the command line replace its own.
Scenario read_scenario(const std::string& path, const CommandLine& line);
/// Makes a scenario of the options of the command line alone.
Scenario scenario_of(const CommandLine& line);
/// Returns the scenario with other settings, under which the arguments of its run are judged. The batch that
/// the run has by its own layout stays its batch.
Scenario with_settings(const Scenario& scenario, const Settings& settings);
/// Whether the command line gives a layout by itself, which it does with --world-size.
bool gives_a_world(const CommandLine& line);

/// Returns a folder that is installed with the program: share/shardproof/NAME beside its own folder, or else
/// the one in the checkout.
std::string folder_of_program(const std::string& name, const char* in_checkout);
std::string scenario_folder();

/// Returns the .ini files below the scenario folder, sorted by path. Those of cluster/ are left out, because
/// their ranks are processes that a launcher starts, and those of machines/ and faults/, which are no
/// scenarios.
std::vector<std::string> scenario_files();
/// Returns the .ini files of faults/, the catalogue of bugs (verify/exam/fault_catalogue.h), sorted.
std::vector<std::string> catalogue_files();

}  // namespace verify
