#pragma once

/// A run of the user's own: the document of its arguments, what becomes of each, and the options of this
/// program that they stand for. Every argument is used, without effect, not modelled, or unknown.
///
/// Megatron's own defaults and rules are applied to the options: the vocabulary is padded, query groups count
/// only with --group-query-attention, sequence parallelism needs tp above 1, and so on.
///
/// Exact   A document of no run has no arguments, stands for no options, and is refused nothing. A sequence
///         length of 0 is left out, with a note. A batch that Megatron decreases is the decreased one.
///         Positions of all types but learned ones are rotary, which have no parameters either. Arguments are
///         listed by name. One that is not modelled and is switched off, or matters only beside another one
///         that is not set, has no effect, and is listed there. Memory is counted where more is not proved:
///         latent attention and norms of queries and keys, for example, have their memory here, while their
///         training is not proved. The other way round, some arguments have no effect on what is proved, but
///         allocate memory that is not counted: CUDA graphs, buffers of overlapped communication.
/// Errors  run_unresolved: the value of an argument that is used, or the number of processes, cannot be known
///         without executing the file; run_not_modelled: an argument that changes the rank grid and is not
///         modelled.
/// Source  Measured runs of Megatron-LM's functional tests: verify/memory/README.md.

#include <string>
#include <string_view>
#include <vector>

#include "verify/megatron_rules/run_values.h"
#include "verify/run_arguments/argument_table.h"
#include "verify/run_arguments/run_arguments.h"
#include "verify/vocabulary/settings.h"

namespace verify {

struct AccountedArgument {
  std::string name;   // without dashes
  std::string value;  // "" for a flag
  int line = 0;
  std::string sentence;
  Unproved unproved = Unproved::nothing;
};

struct UnknownArgument {
  std::string name;
  int line = 0;
  std::string nearest;  // the nearest known name; "" where none is near
};

struct RunAccount {
  std::vector<AccountedArgument> used;
  std::vector<AccountedArgument> without_effect;
  std::vector<AccountedArgument> not_modelled;
  std::vector<UnknownArgument> unknown;
};

/// A row of argument_cases.tsv, which says what its words are.
struct ArgumentCase {
  std::string argument, about;
  std::vector<std::string> plain;  // values
  Unproved unproved = Unproved::nothing;
  std::string sentence;
  bool has_plain(const std::string& value) const;
};
/// Returns the row of an argument; null if there is none.
const ArgumentCase* find_argument_case(std::string_view argument, std::string_view about);

/// Returns the argument as a reader would write it: "--fp8-format hybrid".
std::string written(const AccountedArgument& argument);

/// Returns the first argument that leaves this without proof; null where none does.
const AccountedArgument* not_proved(const RunAccount& account, Unproved what);

/// Whether the option of this name says only what a rank keeps.
bool is_option_of_memory(const std::string& name);

/// Whether an argument that is not counted moves memory to the host, so that a rank holds less with it.
bool holds_less(const AccountedArgument& argument);

/// Returns the arguments that change what a rank holds in a way that is not counted, sorted by name.
std::vector<AccountedArgument> uncounted_arguments(const RunValues& values, const RunAccount& account);

struct RunOfFile {
  RunArguments document;
  RunValues values;
  RunAccount account;
  Settings settings;               // the options that the arguments stand for
  std::vector<std::string> notes;  // of the document, and about what was made of its arguments

  bool is_given() const { return document.is_given(); }
};

/// Makes the options of a run.
RunOfFile run_of(RunArguments document);

/// Returns the run with these options in place of those that its arguments stand for. What follows from the
/// layout, such as a batch that the document does not give, follows from theirs.
RunOfFile with_options(const RunOfFile& run, const Settings& settings);

/// Returns the run with these options above those that its arguments stand for.
RunOfFile under_options(const RunOfFile& run, const Settings& given);

/// Returns the options that hold for the run, with the decreased batch where Megatron decreases it.
Settings with_decreased_batch(const RunOfFile& run, Settings options);

/// Refuses a run in which an argument that is not modelled leaves this without proof.
void require_modelled(const RunOfFile& run, Unproved what);

/// Whether a word that is not known may only add arguments without effect to those that are there.
bool adds_nothing_that_counts(const Unresolved& unknown);

/// Refuse what is not known of the run `option` gives: the values and ranks that count, and words that may
/// hold further arguments.
void require_known_values(const RunOfFile& run, const std::string& option);
void require_known_words(const RunOfFile& run, const std::string& option);

}  // namespace verify
