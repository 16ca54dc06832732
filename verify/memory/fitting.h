#pragma once

/// Whether a run fits: the arguments that leave it open, and what would help a run that does not fit, changes
/// of its options, each with the memory that was counted for it.
///
/// Calls   Changes are tried one at a time, in the order of changes.h. Of each kind, the smallest change that
///         leaves kTight is suggested, or else the smallest one that fits. If none fits, it is the smallest
///         one after which further ones save less than a hundredth. If no change fits by itself, up to three
///         pairs are suggested, or one set of more changes. For the set, each kind in turn adds the change
///         that saves most until the run fits; kinds of more ranks come last. Then each change is left out or
///         made smaller if that is enough, the most expensive kind first. These changes are not suggested:
///         what the run has already; what the layout, Megatron or the attention of context parallelism
///         refuses; what no longer keeps documents apart; tensor-parallel ranks on several nodes; what makes
///         activations impossible to count; and what saves less than a hundredth and does not make the run
///         fit.
///         An argument that is not modelled exactly is compared with what is left, or missing, on the stage
///         that holds most. What arguments of one purpose may add is added once for all of them.
/// Exact   The bounds of such arguments are chosen: one about the step may double what the step holds, and
///         one about the format or the place of the model may also add a copy of its parameters. What moves
///         memory to the host adds nothing. All other arguments may change anything. The figures of changes
///         are those that the changed run itself has. A run of --from that gives no batch has another one
///         then, as Megatron takes it for the changed layout.

#include <cstdint>
#include <string>
#include <vector>

#include "verify/megatron_rules/run_of_file.h"
#include "verify/memory/model_memory.h"
#include "verify/memory/stage_memory.h"
#include "verify/requests/scenario.h"

namespace verify {

/// A run that leaves less of a GPU's memory fits only just. The bound is chosen: what is not counted was
/// seen to take that much.
constexpr std::int64_t kTight = std::int64_t{2} << 30;

/// Returns "fits", or "fits only just".
const char* text_of_fit(std::int64_t left);

struct Remedy {
  std::string options;  // as on the command line: "--sequence-parallel"; "no --option" is left out
  std::string words;    // the same in a sentence: "With --sequence-parallel", "Without --option"
  std::int64_t peak_bytes = 0;
  std::size_t stage = 0;  // the one that holds most then
  bool fits = false;
};

/// Returns what would help: first what fits, in the order above, then the others, what saves most first.
std::vector<Remedy> remedies(const Scenario& scenario, const MemoryReport& report);

/// Returns what a run that fits has room for, if half of the memory is left (a bound that is chosen): the
/// largest of up to 16 times its microbatch that leaves kTight, and no recomputation if it then still leaves
/// kTight.
std::vector<Remedy> uses_of_room(const Scenario& scenario, const MemoryReport& report);

/// Returns the arguments that leave it open whether a stage fits, of which `left` bytes are left; a negative
/// number is missing.
std::vector<AccountedArgument> doubtful_arguments(const std::vector<AccountedArgument>& uncounted,
                                                  const StageMemory& stage, std::int64_t left);

}  // namespace verify
