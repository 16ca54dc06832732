#pragma once

/// The words behind "shardproof": a command, scenario files, options. Options are written out in full, as
/// "--option value" or "--option=value"; a flag takes back a scenario's as "--flag=false".
///
/// Errors  missing_value, and those of option_source.h.

#include <string>
#include <vector>

#include "verify/options/settings.h"

namespace verify {

struct CommandLine {
  std::string command;  // empty: none given
  std::vector<std::string> scenarios;
  Settings settings;
  bool help = false;
  bool version = false;
};

CommandLine parse_command_line(const std::vector<std::string>& arguments);

/// The options as a page of help.
std::string option_help();

}  // namespace verify
