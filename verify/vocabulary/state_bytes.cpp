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

StateBytes state_bytes(const Settings& settings) {
  const bool is_half = is_bf16(settings) || settings.flag("fp16");
  const bool reduces_in_fp32 = is_bf16(settings) ? settings.choice("main-grads-dtype") == "fp32" &&
                                                       !settings.flag("grad-reduce-in-bf16")
                                                 : settings.flag("accumulate-allreduce-grads-in-fp32");
  StateBytes bytes{.dtypes = is_bf16(settings) ? "bf16"
                             : is_half         ? "fp16"
                                               : "fp32",
                   .is_distributed = !settings.flag("no-distributed-optimizer")};
  bytes.parameter = bytes_of(bytes.dtypes);
  bytes.gradient = reduces_in_fp32 ? kFull : bytes.parameter;
  add_optimizer_bytes(settings, bytes);
  if (bytes.gradient != kFull) bytes.dtypes += " with gradients in " + bytes.dtypes;
  constexpr std::int64_t kUsual = 3 * kFull;
  if (bytes.optimizer != kUsual)
    bytes.dtypes += fmt::format(", optimizer states of {} bytes", bytes.optimizer);
  return bytes;
}

}  // namespace verify
