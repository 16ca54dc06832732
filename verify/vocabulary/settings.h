#pragma once

/// Settings are option values by name. A value is kept as text until it is read as a number, a flag or a
/// word.
///
/// Values come from the command line (command_line.h) and from scenario files (scenario.h), which share one
/// vocabulary (option_vocabulary.h). The command line overrides a scenario, option by option.
///
/// Errors  not_a_number: a value that is not a whole number; number_range: a number that does not fit into 32
///         bits; size_range: a size below 1 or a negative count; not_a_flag: a flag that is neither true nor
///         false; bad_choice: a word that is not among the choices.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace verify {

class Settings {
 public:
  void append(const std::string& name, const std::vector<std::string>& values);
  void remove(const std::string& name) { values_.erase(name); }
  bool has(const std::string& name) const { return values_.contains(name); }
  bool has_any_of(std::string_view section) const;
  /// Returns the values as they were given; empty when the option was not given.
  std::vector<std::string> given(const std::string& name) const;

  std::optional<std::int64_t> number(const std::string& name) const;
  std::vector<std::int64_t> numbers(const std::string& name) const;
  bool flag(const std::string& name) const;
  std::string choice(const std::string& name) const;
  /// Returns the word of a choice of which only these words are allowed; the first is the default.
  std::string choice_among(const std::string& name, const std::vector<std::string>& choices) const;
  std::string text(const std::string& name, const std::string& fallback) const;
  std::vector<std::string> texts(const std::string& name) const;

  /// Reads every value once, so that a malformed number, size, flag or choice is refused even where nothing
  /// else reads it, and together with all others.
  void check() const;

  /// Returns these settings, where options of `stronger` replace those of the same name.
  Settings overridden_by(const Settings& stronger) const;
  /// Returns the settings as command-line options, sorted by name and quoted for a shell: {"--order
  /// tp-dp-pp", "--world-size 16"}. Options of a single call (output, process) are left out.
  std::vector<std::string> as_options() const;
  /// Returns the settings as the lines of a scenario, sorted by name.
  std::string as_scenario() const;
  /// Returns these options as a line, each with a blank before it.
  std::string as_command_line() const;

 private:
  /// Reads the value of one option, which must be given.
  void read(const std::string& name) const;

  std::map<std::string, std::vector<std::string>> values_;
};

}  // namespace verify
