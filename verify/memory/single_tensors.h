#pragma once

/// The tensors that a rank allocates in one piece, by whose size an allocation that failed is known.
///
/// Shapes  Sizes are as in saved_tensors.h; a chunk is the layers that a rank has in one piece.
///         model       e for each element of a weight; with ZeRO-1 the buffer of all parameters of a chunk,
///                     and always that of their gradients, those of experts apart where their grid is another
///         optimizer   of each parameter, or of the piece that a rank owns: the main parameter, a moment, and
///                     a copy in fp32 of a gradient of 16 bits
///         layers      the rows of saved_tensors.h that are one tensor, each of which has a gradient as
///                     large; e H n gathered over tp; the rows that go to experts; keys and values that
///                     travel over cp
///         ends        the mask of attention, the output of the embedding e H n, and the gradient of its
///                     weight; the logits, in the dtype of the model and in fp32
/// Calls   Sorted by size, largest first; at equal size, those of a step first. Tensors with the same name
///         and shape are listed once. While a model is built, a rank has no more than its parameters; when
///         data parallelism takes it over, both copies of them and the gradients; in a step, and when the
///         optimizer makes its states, no less than parameters and gradients.
/// Exact   Tensors of less than 10 MiB are left out: PyTorch's allocator asks the GPU for 2 MiB or 20 MiB in
///         their place (verify/requests/out_of_memory.h). Of two moments with dtypes of their own neither is
///         listed.
/// Source  Those of saved_tensors.h and model_memory.h; Megatron-LM,
///         core/distributed/param_and_grad_buffer.py.

#include <cstdint>
#include <string>
#include <vector>

#include "verify/memory/model_memory.h"
#include "verify/memory/saved_tensors.h"

namespace verify {

/// When a tensor is allocated, in the order of a run.
enum class Phase { building, wrapping, loading, step, states };

/// Returns a phase in words: "in a step".
const char* text_of(Phase phase);

/// Whether a rank of a stage may be in a phase while its tensors have this many bytes.
bool may_be_in(Phase phase, const StageMemory& stage, std::int64_t in_tensors);

struct SingleTensor {
  std::string name;  // after "of": "the logits in fp32"
  std::vector<std::int64_t> shape;
  std::int64_t bytes = 0;
  Phase phase = Phase::step;
  bool operator==(const SingleTensor&) const = default;
};

/// Returns the tensors that a rank of a stage allocates in one piece.
std::vector<SingleTensor> single_tensors(const ActivationShape& shape, const Stage& stage,
                                         const MemoryReport& report);

/// Returns the scores of a layer, in the dtype of the model and in fp32, where attention should be fused:
/// they exist only if it is not. Empty where they are counted, or where a sequence is cut over cp.
std::vector<SingleTensor> unexpected_scores(const ActivationShape& shape);

}  // namespace verify
