#include "verify/vocabulary/state_bytes.h"

#include <fmt/format.h>
#include <string_view>

#include "verify/vocabulary/settings.h"

namespace verify {

namespace {

constexpr std::int64_t kHalf = 2, kFull = 4;

std::int64_t bytes_of(std::string_view dtype) {
  if (dtype == "fp32") return kFull;
  return dtype == "fp8" ? 1 : kHalf;
}

void add_optimizer_bytes(const Settings& settings, StateBytes& bytes) {
  const bool has_main = bytes.parameter != kFull;
  std::int64_t moments = 2 * kFull;
  bytes.main = has_main ? kFull : 0;
  if (settings.flag("use-precision-aware-optimizer")) {
    const bool keeps_remainder = is_bf16(settings) && settings.choice("main-params-dtype") == "fp32";
    if (has_main) bytes.main = keeps_remainder ? kHalf : bytes_of(settings.choice("main-params-dtype"));
    moments = bytes_of(settings.choice("exp-avg-dtype")) + bytes_of(settings.choice("exp-avg-sq-dtype"));
  } else if (bytes.gradient != kFull) {
    bytes.copied_gradient = kFull;
  }
  bytes.optimizer = bytes.main + moments + bytes.copied_gradient;
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
  add_optimizer_bytes(settings, bytes);
  if (bytes.gradient != kFull) bytes.dtypes += " with gradients in " + bytes.dtypes;
  constexpr std::int64_t kUsual = 3 * kFull;
  if (bytes.optimizer != kUsual)
    bytes.dtypes += fmt::format(", optimizer states of {} bytes", bytes.optimizer);
  return bytes;
}

}  // namespace verify
