#pragma once

/// What reading a command line and reading a scenario file have in common: Boost's description of the
/// vocabulary, the refusal of an unknown name with the nearest known one, and the collection of values into
/// Settings.
///
/// Errors  unknown_option, missing_value, given_twice.

#include <boost/program_options/options_description.hpp>
#include <string>
#include <vector>

#include "verify/options/settings.h"

namespace verify {

boost::program_options::options_description describe_options();

/// `where` as it follows "not known": "" or " in FILE".
[[noreturn]] void refuse_unknown_option(const std::string& option, const std::string& where);

/// Collects the options of one source. An option that is no list stands once.
class OptionCollector {
 public:
  /// `where` names the source in refusals: " on the command line".
  explicit OptionCollector(std::string where) : where_(std::move(where)) {}
  void add(const std::string& name, const std::vector<std::string>& values);
  const Settings& settings() const { return settings_; }

 private:
  std::string where_;
  Settings settings_;
};

}  // namespace verify
