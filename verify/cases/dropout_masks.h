#pragma once

/// The dropout masks that references take: the factor of every element of a whole tensor. References know no
/// ranks, so a mask is put together here from the random streams of the ranks.
///
/// Shapes  the dimension `dropout` of a case is the probability in quarters; if it is 0, masks are empty.

#include "verify/cases/case_inputs.h"

namespace verify {

inline sim::Ratio dropout_of(const CaseSetting& setting) { return {setting["dropout"], 4}; }

/// Returns the mask of a [rows, columns] tensor, whose rows are sharded over the ranks or replicated.
template <typename Scalar>
reference::Matrix<Scalar> mask_of_rows(const Inputs<Scalar>& inputs, const CaseSetting& setting,
                                       const std::string& name, std::int64_t rows, std::int64_t columns,
                                       bool is_sharded) {
  if (setting["dropout"] == 0) return {};
  if (!is_sharded) return inputs.dropout(name, rows, columns, dropout_of(setting));
  reference::Matrix<Scalar> mask(rows, columns);
  const std::int64_t own = rows / setting.group_size;
  for (int part = 0; part < setting.group_size; ++part) {
    mask.middleRows(part * own, own) = inputs.dropout(name, own, columns, dropout_of(setting), part);
  }
  return mask;
}

/// Returns the mask [B n S, S] of the attention probabilities. Each rank has n/tp heads: [B, n/tp, S, S].
template <typename Scalar>
reference::Matrix<Scalar> mask_of_heads(const Inputs<Scalar>& inputs, const CaseSetting& setting,
                                        const std::string& name, std::int64_t batch, std::int64_t heads,
                                        std::int64_t sequence) {
  if (setting["dropout"] == 0) return {};
  reference::Matrix<Scalar> mask(batch * heads * sequence, sequence);
  const std::int64_t own = heads / setting.group_size;
  for (int part = 0; part < setting.group_size; ++part) {
    const auto of_rank = inputs.dropout(name, batch * own * sequence, sequence, dropout_of(setting), part);
    for (std::int64_t b = 0; b < batch; ++b) {
      mask.middleRows((b * heads + part * own) * sequence, own * sequence) =
          of_rank.middleRows(b * own * sequence, own * sequence);
    }
  }
  return mask;
}

}  // namespace verify
