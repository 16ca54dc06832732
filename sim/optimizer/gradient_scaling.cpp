#include "sim/optimizer/gradient_scaling.h"

#include <fmt/format.h>

#include "sim/base/error.h"

namespace sim {

GradientScaling gradient_scaling(const ScalingSetting& setting, bool is_expert) {
  const bool fits =
      setting.dp_cp >= 1 && setting.edp >= 1 && !(setting.average_in_collective && setting.per_token_loss);
  if (!fits) {
    refuse(
        {.code = "gradient_scaling",
         .option = "gradient scaling",
         .numbers = fmt::format("dp*cp {}, edp {}{}{}", setting.dp_cp, setting.edp,
                                setting.average_in_collective ? ", average in the collective" : "",
                                setting.per_token_loss ? ", per-token loss" : ""),
         .rule =
             "sizes are at least 1; a per-token loss is summed, because its divisor is known after the step",
         .hint = "either the average in the collective or the per-token loss"});
  }
  if (setting.per_token_loss) return {};
  if (!setting.average_in_collective) return {.before = {1, setting.dp_cp}};
  const bool has_factor = is_expert && setting.edp != setting.dp_cp;
  return {.before = has_factor ? Ratio{setting.edp, setting.dp_cp} : Ratio{}, .reduce = ReduceOp::average};
}

}  // namespace sim
