#include "verify/megatron_rules/megatron_rule.h"
#include "verify/vocabulary/state_bytes.h"

namespace verify::megatron {

namespace {

constexpr const char* kMainGrads = "main-grads-dtype";
constexpr const char* kPrecisionAware = "use-precision-aware-optimizer";

MaybeBreak two_dtypes(const Settings& s) {
  return broken_if(s.flag("fp16") && s.flag("bf16"), "both are given", "one of --fp16 and --bf16");
}

MaybeBreak fp32_reduction_of_other_gradients(const Settings& s) {
  const std::string dtype = s.choice(kMainGrads);
  return broken_if(is_bf16(s) && s.flag("accumulate-allreduce-grads-in-fp32") && dtype != "fp32",
                   fmt::format("gradients are {}", dtype), "--main-grads-dtype fp32");
}

MaybeBreak dtypes_without_their_optimizer(const Settings& s) {
  std::string given;
  for (const char* option : {kMainGrads, "main-params-dtype", "exp-avg-dtype", "exp-avg-sq-dtype"}) {
    if (const std::string dtype = s.choice(option); dtype != "fp32")
      given += fmt::format("{}--{} {}", given.empty() ? "" : ", ", option, dtype);
  }
  return broken_if(!given.empty() && !s.flag(kPrecisionAware), given, fmt::format("--{}", kPrecisionAware));
}

}  // namespace

/// The rules about the dtypes of parameters, gradients and optimizer states.
std::vector<Rule> dtype_rules() {
  return {
      {"fp16_and_bf16", {"fp16", "bf16"}, two_dtypes, "parameters have one dtype"},
      {"fp32_reduce_main_grads",
       {"accumulate-allreduce-grads-in-fp32", kMainGrads, "fp16", "bf16"},
       fp32_reduction_of_other_gradients,
       "with --bf16 gradients that are reduced in fp32 are fp32"},
      {"optimizer_dtype",
       {kPrecisionAware, kMainGrads, "main-params-dtype", "exp-avg-dtype", "exp-avg-sq-dtype"},
       dtypes_without_their_optimizer,
       "only the precision-aware optimizer has states and main gradients of other dtypes than fp32"},
  };
}

}  // namespace verify::megatron
