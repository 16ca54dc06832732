#include "verify/options/state_bytes.h"

#include <fmt/format.h>
#include <string_view>

#include "verify/options/settings.h"

namespace verify {

namespace {

constexpr std::int64_t kHalf = 2, kFull = 4;

std::int64_t bytes_of(std::string_view dtype) {
  if (dtype == "fp32") return kFull;
  return dtype == "fp8" ? 1 : kHalf;
}

std::int64_t optimizer_bytes(const Settings& settings, const StateBytes& bytes) {
  const bool has_main = bytes.parameter != kFull;
  if (!settings.flag("use-precision-aware-optimizer")) {
    const std::int64_t copied_gradient = bytes.gradient != kFull ? kFull : 0;
    return (has_main ? kFull : 0) + 2 * kFull + copied_gradient;
  }
  const bool keeps_remainder = is_bf16(settings) && settings.choice("main-params-dtype") == "fp32";
  const std::int64_t main = keeps_remainder ? kHalf : bytes_of(settings.choice("main-params-dtype"));
  return (has_main ? main : 0) + bytes_of(settings.choice("exp-avg-dtype")) +
         bytes_of(settings.choice("exp-avg-sq-dtype"));
}

}  // namespace

bool is_bf16(const Settings& settings) {
  return settings.has("bf16") ? settings.flag("bf16") : !settings.flag("fp16");
}

bool reduces_in_fp32(bool has_fp32_main_grads, const std::function<bool(const char*)>& flag) {
  return flag("bf16") ? has_fp32_main_grads && !flag("grad-reduce-in-bf16")
                      : flag("accumulate-allreduce-grads-in-fp32");
}

StateBytes state_bytes(const Settings& settings) {
  const auto flag = [&](std::string_view name) {
    return name == "bf16" ? is_bf16(settings) : settings.flag(std::string(name));
  };
  const bool has_fp32_main_grads = settings.choice("main-grads-dtype") == "fp32";
  StateBytes bytes{.dtypes = flag("bf16")   ? "bf16"
                             : flag("fp16") ? "fp16"
                                            : "fp32",
                   .is_distributed = !flag("no-distributed-optimizer")};
  bytes.parameter = bytes_of(bytes.dtypes);
  bytes.gradient = reduces_in_fp32(has_fp32_main_grads, flag) ? kFull : bytes.parameter;
  bytes.optimizer = optimizer_bytes(settings, bytes);
  if (bytes.gradient != kFull) bytes.dtypes += " with gradients in " + bytes.dtypes;
  constexpr std::int64_t kUsual = 3 * kFull;
  if (bytes.optimizer != kUsual)
    bytes.dtypes += fmt::format(", optimizer states of {} bytes", bytes.optimizer);
  return bytes;
}

}  // namespace verify
