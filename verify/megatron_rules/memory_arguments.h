#pragma once

/// The arguments of a run of --from that change what a rank holds in a way that is not counted.
///
/// Exact   Memory is counted where more is not proved: latent attention and norms of queries and keys, for
///         example, have their memory here, while their training is not proved. The other way round, some
///         arguments have no effect on what is proved, but allocate memory that is not counted: CUDA graphs,
///         buffers of overlapped communication.
/// Source  Measured runs of Megatron-LM's functional tests: verify/memory/README.md.

#include <string>
#include <vector>

#include "verify/megatron_rules/run_account.h"
#include "verify/megatron_rules/run_values.h"

namespace verify {

/// Whether the option of this name says only what a rank keeps.
bool is_option_of_memory(const std::string& name);

/// Whether the memory of an argument that is not modelled is counted all the same, or it has none.
bool has_counted_memory(const AccountedArgument& argument);

/// Whether an argument that is not counted moves memory to the host, so that a rank holds less with it.
bool holds_less(const AccountedArgument& argument);

/// Returns the arguments whose memory is not counted, sorted by name.
std::vector<AccountedArgument> uncounted_arguments(const RunValues& values, const RunAccount& account);

}  // namespace verify
