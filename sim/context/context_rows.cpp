#include "sim/context/context_rows.h"

#include <span>

#include "sim/parallel/region.h"
#include "sim/tensor/ops.h"
#include "sim/tensor/rows.h"

namespace sim {

Tensor chosen_rows(const Tensor& x, const std::vector<std::int64_t>& numbers, std::int64_t batch) {
  std::vector<std::int32_t> ids;
  for (const std::int64_t number : numbers) ids.push_back(static_cast<std::int32_t>(number));
  const auto count = static_cast<std::int64_t>(ids.size());
  const std::int64_t features = x.shape()[1];
  const Tensor places = from_host(x.device(), DType::i32, {count}, std::as_bytes(std::span(ids)));
  const Tensor blocks = x.reshaped({x.shape()[0] / batch, batch * features});
  return lookup(blocks, places, 0).reshaped({count * batch, features});
}

Tensor own_context_rows(const Tensor& whole, const SequenceCut& cut, int rank, std::int64_t batch) {
  return chosen_rows(whole, cut.rows_of(rank), batch);
}

Tensor gathered_context_rows(const Tensor& own, const SequenceCut& cut, Communicator& cp, Site site,
                             std::int64_t batch) {
  return chosen_rows(gathered_rows(own, cp, site), cut.places_of_rows(), batch);
}

}  // namespace sim
