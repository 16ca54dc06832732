#pragma once

/// A run of the user's own, which --from or --command reads: its arguments, what becomes of each, and the
/// options of this program that they stand for.
///
/// Megatron's own defaults and rules are applied to the options: the vocabulary is padded, query groups count
/// only with --group-query-attention, sequence parallelism needs tp above 1, and so on.
///
/// Exact   A sequence length of 0 is left out, with a note. A batch that Megatron decreases is the decreased
///         one. Positions of all types but learned ones are rotary, which have no parameters either.
/// Errors  those of run_file.h; two_runs: both --from and --command; run_unresolved: the value of an argument
///         that is used, or the number of processes, cannot be known without executing the file;
///         run_not_modelled: an argument that changes the rank grid and is not modelled; bad_set: --set
///         without a name and a value. All but the first two are told together.

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "verify/megatron_rules/run_account.h"
#include "verify/megatron_rules/run_values.h"
#include "verify/run_arguments/run_arguments.h"
#include "verify/vocabulary/settings.h"

namespace verify {

struct RunOfFile {
  std::string path;  // of the file; "-" for standard input, "" for the text of --command
  RunArguments run;
  RunValues values;  // as the file has them
  RunAccount account;
  RunValues judged;  // where options replace arguments of their names
  RunAccount judged_account;
  Settings settings;               // the options that the judged arguments stand for
  std::vector<std::string> notes;  // about the file, and about contradictions in it
};

/// Returns how a sentence names what was read: the path, "standard input" or "the command".
std::string source_name(const RunOfFile& run);

/// Reads the run of --from or --command; null where neither option is given.
std::shared_ptr<const RunOfFile> requested_run(const Settings& command_line);

/// Makes the options of a run. `world_size` is that of the command line, which counts first.
RunOfFile run_of(const std::string& path, RunArguments run, std::optional<std::int64_t> world_size);

/// Returns the run with these options in place of those that its arguments stand for. What follows from the
/// layout, such as a batch that the file does not give, follows from theirs.
RunOfFile with_options(const RunOfFile& run, const Settings& settings);

/// Returns the options that hold for the run, with the decreased batch where Megatron decreases it.
Settings with_decreased_batch(const RunOfFile& run, Settings options);

/// Refuses a run in which an argument that is not modelled leaves this without proof.
void require_modelled(const RunOfFile& run, Unproved what);

/// Whether a word that is not known may only add arguments without effect to those that are there.
bool adds_nothing_that_counts(const Unresolved& unknown);

/// Refuses the first word of the file that is not known and may hold further arguments (run_unresolved).
void require_known_words(const RunOfFile& run);

/// Refuses what keeps the arguments from being known and is not said on the command line.
void require_judgeable(const RunOfFile& run, const Settings& command_line);

}  // namespace verify
