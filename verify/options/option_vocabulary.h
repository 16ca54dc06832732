#pragma once

/// Every option the program knows, as a table: Megatron's flag names, and a few of this project. The row says
/// who reads the option and what stands for it when it is not given. Command line and scenario files have the
/// same vocabulary; a scenario writes the names without "--". Options of output and of this process belong on
/// the command line.
///
/// Errors  option_without_effect.

#include <cstdint>
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

/// Who reads an option. One that a backend reads is read by replay and check where they run on that backend.
enum class Reader : std::uint32_t {
  groups = 1U << 0U,
  layers = 1U << 1U,
  schedule = 1U << 2U,
  shards = 1U << 3U,
  replay = 1U << 4U,
  check = 1U << 5U,
  list = 1U << 6U,
  check_of_project = 1U << 7U,   // the program of a project that proves layers of its own (verify/prove.h)
  replay_of_project = 1U << 8U,  // the same
  mpi = 1U << 9U,
  nccl = 1U << 10U,
  cuda = 1U << 11U,
};

constexpr Reader operator|(Reader a, Reader b) {
  return static_cast<Reader>(static_cast<std::uint32_t>(a) | static_cast<std::uint32_t>(b));
}
constexpr bool overlap(Reader a, Reader b) {
  return (static_cast<std::uint32_t>(a) & static_cast<std::uint32_t>(b)) != 0;
}
inline constexpr Reader kEveryBackend = Reader::mpi | Reader::nccl | Reader::cuda;
inline constexpr Reader kEverybody = static_cast<Reader>(~0U);

struct OptionInfo {
  const char* name;
  OptionKind kind;
  std::string_view section;
  Reader readers;
  const char* fallback;  // what stands for it when it is not given; "" where that needs no word
  const char* help;
  std::vector<std::string> choices = {};  // the first is the default
  /// Of one call of the program, and of no scenario.
  bool is_of_a_call() const { return section == kOutputSection || section == kProcessSection; }
};

/// The help with what stands for the option when it is not given.
std::string help_of(const OptionInfo& option);

/// "replay, check": the commands and backends that read an option.
std::string text_of_readers(const OptionInfo& option);

/// All options, by section.
const std::vector<OptionInfo>& option_vocabulary();

/// The option of this name, which must exist.
const OptionInfo& option_named(const std::string& name);

/// Refuses an option that was given to a command, or a backend, that does not read it.
[[noreturn]] void refuse_without_effect(const std::string& option, const std::string& command);

}  // namespace verify
