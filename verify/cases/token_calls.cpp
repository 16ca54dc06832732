#include "verify/cases/token_calls.h"

namespace verify {

using sim::Operation;

/// The count of an all-reduce is the whole tensor; that of a gather or a scatter is one rank's block.
void TokenCalls::add(std::vector<ExpectedCall>& calls, const char* site, Operation operation) const {
  if (tp > 1) calls.push_back({site, operation, operation == Operation::all_reduce ? all : all / tp});
}

void TokenCalls::column_forward(std::vector<ExpectedCall>& calls) const {
  if (sequence_parallel) add(calls, "column_parallel_linear.forward", Operation::all_gather);
}

void TokenCalls::column_backward(std::vector<ExpectedCall>& calls) const {
  if (sequence_parallel) add(calls, "column_parallel_linear.backward_input", Operation::all_gather);
  add(calls, "column_parallel_linear.backward",
      sequence_parallel ? Operation::reduce_scatter : Operation::all_reduce);
}

void TokenCalls::row_forward(std::vector<ExpectedCall>& calls) const {
  add(calls, "row_parallel_linear.forward",
      sequence_parallel ? Operation::reduce_scatter : Operation::all_reduce);
}

void TokenCalls::row_backward(std::vector<ExpectedCall>& calls) const {
  if (sequence_parallel) add(calls, "row_parallel_linear.backward", Operation::all_gather);
}

void TokenCalls::layer_forward(std::vector<ExpectedCall>& calls) const {
  for (int i = 0; i < 2; ++i) {
    column_forward(calls);
    row_forward(calls);
  }
}

void TokenCalls::layer_backward(std::vector<ExpectedCall>& calls) const {
  for (int i = 0; i < 2; ++i) {
    row_backward(calls);
    column_backward(calls);
  }
}

void TokenCalls::embedding_forward(std::vector<ExpectedCall>& calls) const {
  add(calls, "vocab_parallel_embedding.forward",
      sequence_parallel ? Operation::reduce_scatter : Operation::all_reduce);
}

void TokenCalls::embedding_backward(std::vector<ExpectedCall>& calls) const {
  if (sequence_parallel) add(calls, "vocab_parallel_embedding.backward", Operation::all_gather);
}

void loss_calls(std::int64_t tokens, bool has_smoothing, int tp, std::vector<ExpectedCall>& calls) {
  if (tp == 1) return;
  calls.push_back({.site = "vocab_parallel_cross_entropy.max",
                   .operation = Operation::all_reduce,
                   .elements = tokens,
                   .of_sums = true,
                   .reduce_op = sim::ReduceOp::max});
  calls.push_back(
      {"vocab_parallel_cross_entropy.sum", Operation::all_reduce, tokens * (has_smoothing ? 3 : 2), true});
}

void sequence_parallel_sum(std::int64_t elements, int tp, std::vector<ExpectedCall>& calls) {
  if (tp > 1) calls.push_back({"sequence_parallel_grads.sum", Operation::all_reduce, elements, true});
}

}  // namespace verify
