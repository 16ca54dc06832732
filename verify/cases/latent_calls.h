#pragma once

/// The calls of multi-head latent attention over tp, in closed form: those before and behind its heads. Each
/// up-projection is a column-parallel layer of a latent state, and the shared part of keys is gathered and
/// reduced by itself.
///
/// Calls   each function appends the calls of one pass to a list; a group of one rank makes none.

#include "verify/cases/token_calls.h"

namespace verify {

struct LatentCalls {
  std::int64_t tokens = 0;       // T
  std::int64_t hidden = 0;       // H
  std::int64_t q_lora_rank = 0;  // 0: queries come from the hidden state itself
  std::int64_t kv_lora_rank = 0;
  std::int64_t positions = 0;  // the channels of the shared part of keys
  int tp = 1;
  bool sequence_parallel = false;

  void forward_to_heads(std::vector<ExpectedCall>& calls) const;
  void backward_from_heads(std::vector<ExpectedCall>& calls) const;
  /// The layer that the output of the heads goes through.
  TokenCalls of_output() const { return layer_of(hidden); }

 private:
  TokenCalls layer_of(std::int64_t width) const {
    return {.all = tokens * width, .tp = tp, .sequence_parallel = sequence_parallel};
  }
  std::int64_t width_of_queries() const { return q_lora_rank > 0 ? q_lora_rank : hidden; }
};

}  // namespace verify
