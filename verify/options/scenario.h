#pragma once

/// A scenario: an INI file of option names without the leading "--" ("world-size = 16", flags as
/// "swiglu = true"). Its first line is a comment that names its source. No sections, no output options.
///
/// Errors  scenario_missing, scenario_syntax, not_in_scenario, one_scenario, and those of option_source.h.

#include <string>
#include <vector>

#include "verify/options/command_line.h"
#include "verify/options/settings.h"

namespace verify {

struct Scenario {
  std::string path;
  std::string name;    // the file's name without ".ini"
  std::string source;  // its first line, without the comment sign
  Settings settings;
};

Scenario read_scenario(const std::string& path);

/// Of an installed program share/shardproof/scenarios beside its own folder; else that of the sources.
std::string scenario_folder();

/// The .ini files in the folders of the scenario folder, sorted by path. Those of cluster/ are not among
/// them: their ranks are processes, and each is started by a launcher.
std::vector<std::string> scenario_files();

/// Commands that show one thing take at most one scenario; returns its settings under those of the command
/// line.
Settings single_scenario(const CommandLine& line);

}  // namespace verify
