#pragma once

/// Every option the program knows: Megatron's flag names, and a few of ours. Command line and scenario files
/// have the same vocabulary; a scenario writes the names without "--". Those of output and of this process
/// belong on the command line.

#include <string>
#include <string_view>
#include <vector>

namespace verify {

enum class OptionKind {
  size,     // a whole number from 1 on
  count,    // a whole number from 0 on
  number,   // any whole number of 32 bits
  numbers,  // a list of them
  flag,     // true or false
  choice,   // one of a few words
  text,
  texts,  // may be repeated
  words,  // may be repeated, and each time a list
};

/// The sections that code asks for; an option's section is also its heading on the page of help.
inline constexpr std::string_view kLayersSection = "Layers";
inline constexpr std::string_view kCasesSection = "Cases";
inline constexpr std::string_view kBackendSection = "Backends";
inline constexpr std::string_view kProcessSection = "This process";
inline constexpr std::string_view kOutputSection = "Output";

struct OptionInfo {
  const char* name;
  OptionKind kind;
  std::string_view section;
  const char* help;
  std::vector<std::string> choices = {};  // the first is the default
  /// Of one call of the program, and of no scenario.
  bool is_of_a_call() const { return section == kOutputSection || section == kProcessSection; }
};

/// All options, by section.
const std::vector<OptionInfo>& option_vocabulary();

/// The option of this name, which must exist.
const OptionInfo& option_named(const std::string& name);

}  // namespace verify
