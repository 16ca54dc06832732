#include "sim/context/context_rows.h"

#include <iterator>

#include "sim/context/row_order.h"
#include "sim/parallel/region.h"

namespace sim {

Tensor chosen_rows(const Tensor& x, const std::vector<std::int64_t>& numbers, std::int64_t batch) {
  const std::int64_t features = x.shape()[1];
  const Tensor blocks = x.reshaped({x.shape()[0] / batch, batch * features});
  return reordered_rows(blocks, numbers).reshaped({std::ssize(numbers) * batch, features});
}

Tensor own_context_rows(const Tensor& whole, const SequenceCut& cut, int rank, std::int64_t batch) {
  return chosen_rows(whole, cut.rows_of(rank), batch);
}

Tensor gathered_context_rows(const Tensor& own, const SequenceCut& cut, Communicator& cp, Site site,
                             std::int64_t batch) {
  return chosen_rows(gathered_rows(own, cp, site), cut.places_of_rows(), batch);
}

}  // namespace sim
