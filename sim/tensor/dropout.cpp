#include "sim/tensor/dropout.h"

#include <fmt/format.h>

#include "sim/base/error.h"
#include "sim/tensor/checks.h"

namespace sim {

Tensor dropout(const Tensor& x, const KeyedRandom& stream, Ratio drop) {
  require_inputs({&x}, "dropout");
  if (drop.numerator < 0 || drop.denominator < 1 || drop.numerator >= drop.denominator) {
    refuse({.code = "bad_dropout",
            .option = "dropout",
            .numbers = fmt::format("a probability of {}/{}", drop.numerator, drop.denominator),
            .rule = "a dropout probability is at least 0 and below 1",
            .hint = "{1, 10} for a probability of 1/10"});
  }
  Tensor out = x.device().empty(x.dtype(), x.shape());
  x.device().dropout(x, stream, drop, out);
  return out;
}

}  // namespace sim
