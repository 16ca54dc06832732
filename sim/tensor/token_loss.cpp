#include "sim/tensor/token_loss.h"

#include <fmt/format.h>

#include "sim/base/error.h"
#include "sim/tensor/checks.h"

namespace sim {

namespace {

bool is_smoothed(const TokenLoss& loss) { return loss.smoothing.numerator != 0; }
std::int64_t parts_of(const TokenLoss& loss) { return is_smoothed(loss) ? 3 : 2; }

void require_loss(const TokenLoss& loss, const Tensor& logits, const char* user) {
  constexpr std::int64_t kMost = std::int64_t{1} << 24;
  const Ratio s = loss.smoothing;
  const bool fits = logits.shape().dimensions() == 2 && loss.columns >= 0 &&
                    loss.columns <= columns_of(logits) && loss.vocabulary >= 1 && loss.vocabulary <= kMost &&
                    s.denominator >= 1 && s.denominator <= kMost && s.numerator >= 0 &&
                    s.numerator <= s.denominator;
  if (fits) return;
  refuse({.code = "bad_loss",
          .option = user,
          .numbers =
              fmt::format("logits {}, {} columns of a vocabulary of {}, smoothing {}/{}",
                          text_of(logits.shape()), loss.columns, loss.vocabulary, s.numerator, s.denominator),
          .rule =
              "logits are [T, V/tp] and have the columns; the vocabulary and the denominator are from 1 to "
              "16,777,216, and smoothing is from 0 to 1",
          .hint = "the TokenLoss that VocabParallelCrossEntropy makes"});
}

void require_targets(const Tensor& targets, const Tensor& like, std::int64_t tokens, const char* user) {
  require_usable(targets, like.device(), user);
  require_i32(targets, user);
  require_read(targets, user);
  require_shapes(targets.shape() == Shape{tokens}, {&like, &targets}, user,
                 "there is one target for each token");
}

}  // namespace

Tensor row_max(const Tensor& logits, const TokenLoss& loss) {
  require_inputs({&logits}, "row_max");
  require_loss(loss, logits, "row_max");
  Tensor maxima = logits.device().empty(sum_dtype(logits.dtype()), {rows_of(logits)});
  logits.device().row_max(logits, loss.columns, maxima);
  return maxima;
}

TokenParts token_parts(const Tensor& logits, const Tensor& maxima, const Tensor& targets,
                       const TokenLoss& loss) {
  constexpr const char* kUser = "token_parts";
  require_inputs({&logits}, kUser);
  require_loss(loss, logits, kUser);
  require_sums(maxima, logits, kUser);
  require_shapes(maxima.shape() == Shape{rows_of(logits)}, {&logits, &maxima}, kUser,
                 "there is one maximum for each token");
  require_targets(targets, logits, rows_of(logits), kUser);
  const DType sums = sum_dtype(logits.dtype());
  TokenParts result{logits.device().empty(sums, logits.shape()),
                    logits.device().empty(sums, {parts_of(loss), rows_of(logits)})};
  logits.device().token_parts(logits, maxima, targets, loss, result.exps, result.parts);
  return result;
}

Tensor token_loss(const Tensor& parts, const Tensor& targets, const TokenLoss& loss) {
  require_inputs({&parts}, "token_loss");
  require_shapes(parts.shape() == Shape{parts_of(loss), columns_of(parts)}, {&parts}, "token_loss",
                 "parts are [2, T], or [3, T] with smoothing");
  require_targets(targets, parts, columns_of(parts), "token_loss");
  Tensor out = parts.device().empty(parts.dtype(), {columns_of(parts)});
  parts.device().token_loss(parts, targets, loss, out);
  return out;
}

Tensor token_loss_backward(DType logits, const Tensor& exps, const Tensor& parts, const Tensor& targets,
                           const TokenLoss& loss, const Tensor& grad) {
  constexpr const char* kUser = "token_loss_backward";
  require_inputs({&exps, &parts, &grad}, kUser);
  require_loss(loss, exps, kUser);
  const std::int64_t tokens = rows_of(exps);
  require_shapes(parts.shape() == Shape{parts_of(loss), tokens} && grad.shape() == Shape{tokens},
                 {&exps, &parts, &grad}, kUser,
                 "exps are [T, V/tp], parts [2, T] or [3, T], and the gradient [T]");
  require_targets(targets, exps, tokens, kUser);
  Tensor out = exps.device().empty(logits, exps.shape());
  exps.device().token_loss_backward(exps, parts, targets, loss, grad, out);
  return out;
}

}  // namespace sim
