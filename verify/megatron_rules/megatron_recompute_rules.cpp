#include "verify/megatron_rules/megatron_rule.h"

namespace verify::megatron {

namespace {

MaybeBreak full_without_method(const Settings& s) {
  return broken_if(recomputes(s, "full") && !s.has("recompute-method"), "full, without a method",
                   "--recompute-method uniform");
}

MaybeBreak full_without_layers(const Settings& s) {
  return broken_if(recomputes(s, "full") && !s.has("recompute-num-layers"),
                   "full, without a number of layers", "--recompute-num-layers 1");
}

MaybeBreak groups_of_no_layers(const Settings& s) {
  const bool is_uniform = s.text("recompute-method", "") == "uniform";
  return broken_if(recomputes(s, "full") && is_uniform && s.number("recompute-num-layers") == 0,
                   "groups of 0 layers", "--recompute-num-layers 1");
}

MaybeBreak selective_with_method(const Settings& s) {
  return broken_if(recomputes(s, "selective") && s.has("recompute-method"), "selective, with a method",
                   "leave --recompute-method out");
}

MaybeBreak selective_with_layers(const Settings& s) {
  return broken_if(recomputes(s, "selective") && s.has("recompute-num-layers"),
                   "selective, with a number of layers", "leave --recompute-num-layers out");
}

}  // namespace

/// The rules about recomputation.
std::vector<Rule> recompute_rules() {
  return {
      {"full_recompute_needs_method",
       {"recompute-method", kRecompute},
       full_without_method,
       "full recomputation has a method, block or uniform"},
      {"full_recompute_needs_layers",
       {"recompute-num-layers", kRecompute},
       full_without_layers,
       "full recomputation has a number of layers"},
      {"uniform_recompute_without_layers",
       {"recompute-num-layers", "recompute-method", kRecompute},
       groups_of_no_layers,
       "a group has a layer or more: Megatron's step would never come to the end of its layers"},
      {"selective_with_method",
       {"recompute-method", kRecompute},
       selective_with_method,
       "selective recomputation has no method"},
      {"selective_with_num_layers",
       {"recompute-num-layers", kRecompute},
       selective_with_layers,
       "selective recomputation has no number of layers"},
  };
}

}  // namespace verify::megatron
