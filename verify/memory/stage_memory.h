#pragma once

/// What a rank of one pipeline stage holds when it holds most, in parts that add up.
///
/// Shapes  All parts are bytes. The parts that are held between steps are static; the others are what they
///         are at the largest moment of a forward or backward step.
/// Exact   The optimizer makes the copies of gradients in its step, and Megatron gives them back before the
///         next forward step (`zero_grad`). So a rank holds most either in a forward or backward step without
///         the copies, or between steps with them.
/// Source  Megatron-LM, training/training.py (`train_step`), core/optimizer/distrib_optimizer.py.

#include <cstdint>
#include <span>
#include <string>

namespace verify {

struct StageMemory {
  std::int64_t parameters = 0;
  std::int64_t gradients = 0;
  std::int64_t main_parameters = 0;
  std::int64_t optimizer_moments = 0;
  std::int64_t gradient_copies = 0;        // in fp32, of gradients of 16 bits
  std::int64_t workspace = 0;              // of libraries
  std::int64_t placeholder_gradients = 0;  // where the matrix products add gradients to the buffers
  std::int64_t communication_buffers = 0;  // between steps
  std::int64_t activations = 0;            // of the microbatches in flight
  std::int64_t attention_mask = 0;         // of a microbatch, where activations keep none
  std::int64_t logits_and_loss = 0;
  std::int64_t temporary = 0;  // of the step of the schedule that is running

  std::int64_t expert_parameters = 0;  // those of `parameters` that are in buffers of experts
  std::string peak_in;                 // the largest moment, in words; "" where activations are not counted

  std::int64_t static_bytes() const;
  std::int64_t step_bytes() const;     // at the largest moment of a forward or backward step
  std::int64_t passing_bytes() const;  // those of them that are not static
  std::int64_t peak_bytes() const;
  std::int64_t optimizer() const { return main_parameters + optimizer_moments + gradient_copies; }
  std::int64_t workspaces_and_buffers() const {
    return workspace + placeholder_gradients + communication_buffers;
  }
};

struct MemoryPart {
  const char* name;
  std::int64_t StageMemory::*bytes;
  bool is_static;   // held between steps
  bool is_in_step;  // held in forward and backward steps
};
/// Returns all parts, in the order above.
std::span<const MemoryPart> memory_parts();

}  // namespace verify
