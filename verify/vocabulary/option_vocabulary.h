#pragma once

/// The table of all options (options.tsv): Megatron's flag names, and some of this project. A row names the
/// commands and backends that read the option, and what help, the manual page and the completion of shells
/// say of it (verify/program/command_help.h). The command line and scenario files share this vocabulary; a
/// scenario writes the names without "--". Options of the sections "output" and "process" are allowed only on
/// the command line.
///
/// Errors  option_without_effect: an option given to a command or backend that does not read it. A row that
///         cannot be read breaks an invariant (SIM_CHECK).

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace verify {

enum class OptionKind {
  size,     // a whole number from 1 on
  count,    // a whole number from 0 on
  number,   // any whole number of 32 bits
  numbers,  // a list of such numbers
  flag,     // true or false
  choice,   // one word of `choices`
  text,
  texts,  // a text; the option may be repeated
  pair,   // two words, such as "scenario FILE"
  words,  // a list of words, with commas between them; the option may be repeated
};

/// A section of the table: options that belong together. Its name is also the word that follows --help.
struct OptionSection {
  std::string name, title, summary;  // the summary says what its options say, as a sentence
};
const std::vector<OptionSection>& option_sections();

/// The sections that other code refers to, by name.
inline constexpr std::string_view kLayoutSection = "layout";
inline constexpr std::string_view kRunSection = "run";
inline constexpr std::string_view kLayersSection = "layers";
inline constexpr std::string_view kExpertsSection = "experts";
inline constexpr std::string_view kTrainingSection = "training";
inline constexpr std::string_view kMemorySection = "memory";
inline constexpr std::string_view kCasesSection = "cases";
inline constexpr std::string_view kBackendSection = "backends";
inline constexpr std::string_view kProcessSection = "process";
inline constexpr std::string_view kOutputSection = "output";

/// The commands and backends that read an option, as flags, in the order of option_readers.tsv. Options of a
/// backend are read by replay and check where they run on that backend.
enum class Reader : std::uint32_t {
  groups = 1U << 0U,
  layers = 1U << 1U,
  schedule = 1U << 2U,
  shards = 1U << 3U,
  memory = 1U << 4U,
  replay = 1U << 5U,
  check = 1U << 6U,
  inspect = 1U << 7U,
  list = 1U << 8U,
  mpi = 1U << 9U,
  nccl = 1U << 10U,
  cuda = 1U << 11U,
  spread = 1U << 12U,             // check with --spread
  check_of_project = 1U << 13U,   // check of a program that proves its own layers (verify/prove.h)
  replay_of_project = 1U << 14U,  // replay of such a program
  exam = 1U << 15U,
  exam_of_project = 1U << 16U,  // exam of such a program
  run = 1U << 17U,
  compare = 1U << 18U,
  exam_of_program = 1U << 19U,     // exam of a program in Python, whose words are after "--"
  estimated_schedule = 1U << 20U,  // schedule with --machine
};

constexpr Reader operator|(Reader a, Reader b) {
  return static_cast<Reader>(static_cast<std::uint32_t>(a) | static_cast<std::uint32_t>(b));
}
constexpr Reader operator&(Reader a, Reader b) {
  return static_cast<Reader>(static_cast<std::uint32_t>(a) & static_cast<std::uint32_t>(b));
}
constexpr Reader operator~(Reader a) { return static_cast<Reader>(~static_cast<std::uint32_t>(a)); }
constexpr bool overlap(Reader a, Reader b) { return (a & b) != Reader{}; }
inline constexpr Reader kEveryBackend = Reader::mpi | Reader::nccl | Reader::cuda | Reader::spread;
inline constexpr Reader kEverybody = ~Reader{};

/// What an option means to some of its readers, where that is not what its row says.
struct OptionMeaning {
  Reader readers;
  std::string fallback;
  std::string help;
  std::vector<std::string> choices = {};
};

struct OptionInfo {
  std::string name;
  OptionKind kind = OptionKind::text;
  std::string section;
  Reader readers = Reader{};
  std::string fallback;  // the default, as help shows it; "" where help shows none
  std::string help;      // a sentence about what the option does
  /// How help writes the value. A name that command_help.h knows, such as "CASE", stands for one of a set of
  /// words, and "FILE" for a path; ",..." makes it a list. "": the kind says how.
  std::string value;
  std::vector<std::string> choices = {};  // the words of a `choice`, the first is the default; or of `words`
  bool needs_virtual_ranks = false;       // replay reads the option only where ranks are virtual, on the CPU
  Reader backend_commands = Reader::replay | Reader::check;  // the commands in which its backends read it
  std::string backend_beside;  // the option without which its backends do not read it; "": none
  std::string rules;           // the rule book that alone reads it; "": both do
  std::vector<OptionMeaning> meanings = {};
  /// Whether the option belongs to a single call of the program. A scenario must not give such an option.
  bool is_of_a_call() const { return section == kOutputSection || section == kProcessSection; }
  /// Returns the option as this command reads it: with its own default, sentence and choices.
  OptionInfo as_read_by(Reader command) const;
};

/// Returns how help writes the value of an option: "N", "TEXT", "full|selective"; "" for a flag.
std::string value_text(const OptionInfo& option);

/// Returns the words that a choice may be, whoever reads it.
std::vector<std::string> all_choices(const OptionInfo& option);

/// Returns the option once for each thing that it means, with the readers to whom it means that.
std::vector<OptionInfo> variants_of(const OptionInfo& option);

/// Returns the commands and backends that read an option, for example "replay, check". The readers of a
/// project's own program are not named.
std::string text_of_readers(const OptionInfo& option);

/// Returns the call that explains a command, for example "shardproof replay --help". `words` begin with the
/// name of the command; where they begin with something else, it is the call for the overview.
std::string help_call(std::string_view words);

/// Returns all options; those of a section stand together.
const std::vector<OptionInfo>& option_vocabulary();

/// Returns the option of this name; null where there is none.
const OptionInfo* find_option(const std::string& name);

/// Returns the option of this name, which must exist.
const OptionInfo& option_named(const std::string& name);

/// Refuses an option that was given to a command or backend that does not read it.
[[noreturn]] void refuse_without_effect(const std::string& option, const std::string& command);

}  // namespace verify
