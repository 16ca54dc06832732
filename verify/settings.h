#pragma once

/// What the user said: option values from the command line and from a scenario file, as text, by name.
///
/// One vocabulary serves both: Megatron's flag names. A scenario is an INI file of the same names without the
/// leading "--" ("world-size = 16", flags as "swiglu = true"); its first line is a comment that names its
/// source. Output options belong on the command line. The command line overrides the scenario, option by
/// option ("--swiglu=false" too). An unknown name is refused with the nearest known one.
///
/// Errors  unknown_option, not_in_scenario, missing_value, given_twice, not_a_number, number_range,
///         not_a_flag, size_range, bad_choice, scenario_missing, scenario_syntax.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace verify {

enum class OptionKind {
  size,     // a whole number from 1 on
  number,   // any whole number of 32 bits
  numbers,  // a list of them
  flag,     // true or false
  choice,   // one of a few words
  text,
  texts,  // may be repeated
  words,  // may be repeated, and each time a list
};

struct OptionInfo {
  const char* name;
  OptionKind kind;
  const char* section;
  const char* help;
  std::vector<std::string> choices = {};  // the first is the default
};

/// Every option the program knows, by section.
const std::vector<OptionInfo>& option_vocabulary();

class Settings {
 public:
  void set(const std::string& name, std::vector<std::string> values) { values_[name] = std::move(values); }
  bool has(const std::string& name) const { return values_.contains(name); }

  std::optional<std::int64_t> number(const std::string& name) const;
  std::vector<std::int64_t> numbers(const std::string& name) const;
  bool flag(const std::string& name) const;
  std::string choice(const std::string& name) const;
  std::string text(const std::string& name, const std::string& fallback) const;
  std::vector<std::string> texts(const std::string& name) const;

  /// Reads every value once, so that one that nobody looks at is refused too when it is no number, size or word.
  void check() const;

  /// These settings, with every option of `stronger` replacing the one of the same name.
  Settings overridden_by(const Settings& stronger) const;
  /// As command-line options, quoted for a shell: " --world-size 16 --order tp-dp-pp". Output options are
  /// left out.
  std::string as_command_line() const;

 private:
  std::map<std::string, std::vector<std::string>> values_;
};

/// A word as a shell takes it back: quoted where it has to be.
std::string quoted_for_shell(const std::string& text);

struct CommandLine {
  std::string command;  // empty: none given
  std::vector<std::string> scenarios;
  Settings settings;
  bool help = false;
  bool version = false;
};

CommandLine parse_command_line(const std::vector<std::string>& arguments);

struct Scenario {
  std::string path;
  std::string name;    // the file's name without ".ini"
  std::string source;  // its first line, without the comment sign
  Settings settings;
};

Scenario read_scenario(const std::string& path);

/// The .ini files of the scenario folder, sorted by name.
std::vector<std::string> scenario_files();

/// The options as a page of help.
std::string option_help();

}  // namespace verify
