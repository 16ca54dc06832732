#pragma once

/// The modules that --recompute-modules may name.
///
/// Source  Megatron-LM, core/transformer/transformer_config.py.

#include <algorithm>
#include <array>
#include <string_view>

namespace verify {

inline constexpr std::array<std::string_view, 11> kRecomputeModules = {
    "core_attn",      "moe_act", "layernorm",    "mla_up_proj", "mlp",    "moe",
    "shared_experts", "mhc",     "gdn_norm_out", "gdp_in_proj", "gdp_qkv"};

inline bool is_recompute_module(std::string_view name) {
  return std::ranges::find(kRecomputeModules, name) != kRecomputeModules.end();
}

}  // namespace verify
