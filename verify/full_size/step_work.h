#pragma once

/// What a rank of each pipeline stage does in a training step, in closed form: what it calls, and how many
/// multiply-adds the matrix products of a dense model take.
///
/// Shapes  A pass is that of one microbatch through one chunk. A multiply-add is one of a matrix product;
///         those of attention are those of the library's layers, which compute all scores on one
///         context-parallel rank, and about half of them on several. Ranks of a stage that hold other
///         experts may have fewer rows of tokens; the multiply-adds are those of a rank that has most.
/// Calls   A call stands for those of all ranks of a stage: messages of a ring are those of its first rank.
///         Between stages, `root_or_peer` is the pipeline rank that a message comes from or goes to.
/// Exact   Nothing is run, and nothing of the model, the optimizer or the schedules is asked: the calls of a
///         layer are those of verify/cases/token_calls.h, the buckets of gradients those of
///         gradient_buffers.h, and the calls of experts those of balanced_experts.h. `full_size_step.h` holds
///         them against a step. Selective recomputation repeats the calls and products of its modules; where
///         it repeats calls, it is not run.

#include <cstdint>
#include <string>
#include <vector>

#include "verify/cases/expected_call.h"
#include "verify/full_size/kind_traffic.h"
#include "verify/requests/scenario_request.h"

namespace verify {

struct RepeatedCall {
  ExpectedCall call;
  std::int64_t times = 1;
  int ep_rank = kAllEpRanks;  // the ranks of the stage at this place in ep make it, or all of them
};

struct PassWork {
  std::vector<RepeatedCall> calls;
  std::int64_t multiply_adds = 0;
  std::int64_t moved_bytes = 0;  // by kernels without matrix products (moved_bytes.h)
};
struct ChunkWork {
  PassWork forward, backward;
};

struct RankWork {
  std::vector<ChunkWork> chunks;
  std::vector<RepeatedCall> of_making;  // of the model, before its first step
  std::vector<RepeatedCall> of_step;    // once in a step, when all gradients are there

  std::int64_t multiply_adds(std::int64_t microbatches) const;  // of a step
};

/// Returns why the work of a step is not known in closed form; "" if it is.
std::string why_no_step_work(const ScenarioRequest& request);

/// Whether selective recomputation makes calls again.
bool repeats_calls(const ScenarioRequest& request);

/// Returns the work of a rank of each pipeline stage. why_no_step_work() must have found no reason.
std::vector<RankWork> step_work(const ScenarioRequest& request);

}  // namespace verify
