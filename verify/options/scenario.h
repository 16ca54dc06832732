#pragma once

/// A scenario: an INI file of option names without the leading "--" ("world-size = 16", flags as
/// "swiglu = true"). Its first line is a comment that names its source. No sections, no output options.
///
/// Errors  scenario_missing, scenario_syntax, not_in_scenario, and those of option_source.h.

#include <string>
#include <vector>

#include "verify/options/command_line.h"
#include "verify/options/settings.h"

namespace verify {

struct Scenario {
  std::string path;    // empty for the options of a command line
  std::string name;    // the file's name without ".ini"
  std::string source;  // its first line, without the comment sign
  Settings settings;
};

Scenario read_scenario(const std::string& path);
/// The scenario of a file under the options of the command line, which replace its own.
Scenario read_scenario(const std::string& path, const CommandLine& line);
/// The options of the command line as a scenario of their own.
Scenario scenario_of(const CommandLine& line);
/// Whether the command line gives a layout by itself.
bool gives_a_world(const CommandLine& line);

/// The folder of scenarios: share/shardproof/scenarios beside the folder of an installed program, or that of
/// the sources.
std::string scenario_folder();

/// The .ini files in the folders of the scenario folder, sorted by path. Those of cluster/ are not among
/// them: their ranks are processes, and each is started by a launcher.
std::vector<std::string> scenario_files();

}  // namespace verify
