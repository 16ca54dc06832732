#pragma once

/// What the user said: option values by name, as text until somebody asks for a number, a flag or a word.
///
/// They come from the command line (command_line.h) and from scenario files (scenario.h), which share one
/// vocabulary (option_vocabulary.h). The command line overrides a scenario, option by option.
///
/// Errors  not_a_number, number_range, size_range, not_a_flag, bad_choice.

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
  /// The values as they were given; none when the option was not.
  std::vector<std::string> given(const std::string& name) const;

  std::optional<std::int64_t> number(const std::string& name) const;
  std::vector<std::int64_t> numbers(const std::string& name) const;
  bool flag(const std::string& name) const;
  std::string choice(const std::string& name) const;
  /// The same where only some of the words have a meaning; the first is the default.
  std::string choice_among(const std::string& name, const std::vector<std::string>& choices) const;
  std::string text(const std::string& name, const std::string& fallback) const;
  std::vector<std::string> texts(const std::string& name) const;

  /// Reads every value once, so that one that nobody looks at is refused too when it is no number, size or
  /// word.
  void check() const;

  /// These settings, with every option of `stronger` replacing the one of the same name.
  Settings overridden_by(const Settings& stronger) const;
  /// As command-line options, quoted for a shell: " --world-size 16 --order tp-dp-pp". Options of one call
  /// are left out.
  std::string as_command_line() const;

 private:
  std::map<std::string, std::vector<std::string>> values_;
};

}  // namespace verify
