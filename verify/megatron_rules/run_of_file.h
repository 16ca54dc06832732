#pragma once

/// A run of the user's own: the document of its arguments, what becomes of each, and the options of this
/// program that they stand for.
///
/// Megatron's own defaults and rules are applied to the options: the vocabulary is padded, query groups count
/// only with --group-query-attention, sequence parallelism needs tp above 1, and so on.
///
/// Exact   A document of no run has no arguments, stands for no options, and is refused nothing.
///         A sequence length of 0 is left out, with a note. A batch that Megatron decreases is the decreased
///         one. Positions of all types but learned ones are rotary, which have no parameters either.
/// Errors  run_unresolved: the value of an argument that is used, or the number of processes, cannot be known
///         without executing the file; run_not_modelled: an argument that changes the rank grid and is not
///         modelled.

#include <string>
#include <vector>

#include "verify/megatron_rules/run_account.h"
#include "verify/megatron_rules/run_values.h"
#include "verify/run_arguments/run_arguments.h"
#include "verify/vocabulary/settings.h"

namespace verify {

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
