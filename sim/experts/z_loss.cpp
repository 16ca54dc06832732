#include "sim/experts/z_loss.h"

#include <algorithm>

#include "sim/experts/host_copies.h"
#include "sim/experts/row_operations.h"
#include "sim/tensor/checks.h"
#include "sim/tensor/ops.h"
#include "sim/tensor/token_loss.h"

namespace sim {

namespace {

/// The cross-entropy of no token at all: its loss is log(sum(exp(x))), and its gradient softmax(x).
struct LogSums {
  TokenLoss loss;
  Tensor no_targets;
  TokenParts parts;
  Tensor values;  // [T]
};

LogSums log_sums(const Tensor& x) {
  LogSums sums{.loss = {.columns = columns_of(x), .vocabulary = columns_of(x), .ignored_id = -2},
               .no_targets = filled(x.device(), DType::i32, {rows_of(x)}, -1)};
  const Tensor maxima = row_max(x, sums.loss);
  sums.parts = token_parts(x, maxima, sums.no_targets, sums.loss);
  sums.values = add(token_loss(sums.parts.parts, sums.no_targets, sums.loss), maxima);
  return sums;
}

Tensor without_padding(const Tensor& of_tokens, const PaddingMask& padding) {
  if (padding.empty()) return of_tokens;
  std::vector<std::int32_t> valid;
  for (const std::uint8_t byte : padding) valid.push_back(byte == 0 ? 1 : 0);
  return masked(device_ids(of_tokens.device(), of_tokens.shape(), valid), of_tokens);
}

}  // namespace

ZLossForward z_loss(const Tensor& logits, const PaddingMask& padding, const ZLossConfig& config,
                    const AuxLossGroups& groups) {
  require_inputs({&logits}, "z_loss");
  const std::int64_t valid = valid_tokens(padding, rows_of(logits));
  const std::int64_t tokens = std::max<std::int64_t>(valid, 1);
  const std::int64_t m = groups.tp_cp->size();
  const Tensor x = cast(logits, sum_dtype(logits.dtype()));
  const LogSums sums = log_sums(x);
  const Tensor values = without_padding(sums.values, padding);
  const Tensor row = values.reshaped({1, values.count()});
  const Tensor mean = scale(row_dots(row, row), {1, tokens});
  const Ratio per_rank = lowest_terms({config.coefficient.numerator, config.coefficient.denominator * m});
  const Ratio factor =
      config.per_token_loss ? lowest_terms({per_rank.numerator * valid * m, per_rank.denominator}) : per_rank;
  const Tensor slopes = scale(scale(values, {2, tokens}), factor);
  return {
      {"z_loss", scale(mean, factor), mean, groups.tp_dp_cp},
      token_loss_backward(x.dtype(), sums.parts.exps, sums.parts.parts, sums.no_targets, sums.loss, slopes)};
}

void add_z_loss_backward(const ZLossForward& forward, Ratio scale_of_loss, Tensor& grad_logits) {
  add_to(grad_logits, cast(scale(forward.grad_logits, scale_of_loss), grad_logits.dtype()));
}

}  // namespace sim
