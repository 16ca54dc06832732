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

#include "verify/options/run_account.h"
#include "verify/options/run_values.h"
#include "verify/run_arguments/run_arguments.h"

namespace verify {

/// Returns why a run does not train a GPT, by its training script or an argument of another model; "" where
/// nothing says so. The arguments of a BERT are those of a GPT, which has other layers behind its last one.
std::string other_model(const RunArguments& run);

/// Returns these arguments, sorted by name.
std::vector<AccountedArgument> uncounted_arguments(const RunValues& values, const RunAccount& account);

}  // namespace verify
