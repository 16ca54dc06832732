#pragma once

/// The bytes that training keeps for one element of a parameter: for the parameter, for its gradient, and for
/// its optimizer states, as the options about dtypes say.
///
/// Shapes  Parameters are in bf16 unless --fp16 is given, or --bf16=false, which alone makes them fp32. Their
///         gradients have the same dtype unless they are accumulated and reduced in fp32. Adam keeps a main
///         parameter in fp32, unless the parameter itself is fp32, two moments, and a copy in fp32 of a
///         gradient of 16 bits. The precision-aware optimizer has dtypes of its own, and copies no gradient.
///         Beside a parameter in bf16 it keeps only the other 16 bits of a main parameter in fp32.
/// Exact   The scales of 8-bit moments are not counted.
/// Source  Megatron-LM: its manual of the distributed optimizer (4 + 16/d, 6 + 12/d and 8 + 8/d bytes, where
///         d ranks share the states), training/arguments.py, core/optimizer; Transformer Engine, FusedAdam.

#include <cstdint>
#include <string>

namespace verify {

class Settings;

struct StateBytes {
  std::int64_t parameter = 2;  // also those of an element of an activation
  std::int64_t gradient = 4;
  std::int64_t optimizer = 12;
  std::int64_t main = 4;             // those of `optimizer` that are a main parameter
  std::int64_t copied_gradient = 0;  // those of `optimizer` that are a copy of a gradient in fp32
  std::string dtypes = "bf16";       // in words
  bool is_distributed = true;        // ZeRO-1 shares the states
  bool has_known_optimizer = true;   // otherwise no bytes of the optimizer are counted
};

StateBytes state_bytes(const Settings& settings);

/// Whether the settings count parameters of bf16.
bool is_bf16(const Settings& settings);

}  // namespace verify
