#include "sim/optimizer/part_order.h"

#include <algorithm>

namespace sim {

bool PartOrder::exists(const Parameter& parameter, std::int64_t parts) {
  const ParameterAttributes& cut = parameter.attributes;
  if (parts < 1) return false;
  if (cut.partition_dim < 0) return parts == 1;
  return parameter.whole[static_cast<std::size_t>(cut.partition_dim)] % (parts * cut.partition_stride) == 0;
}

PartOrder::PartOrder(const Parameter& parameter, std::int64_t parts)
    : rows_(parameter.attributes.partition_dim > 0 ? parameter.whole[0] : 1),
      columns_(parameter.whole.count() / std::max<std::int64_t>(rows_, 1)),
      parts_(parts),
      block_(columns_ / (parts * parameter.attributes.partition_stride)) {}

PartOrder::Run PartOrder::in_whole(std::int64_t element) const {
  const std::int64_t width = columns_ / parts_;
  const std::int64_t part = element / part_count(), own = element % part_count();
  const std::int64_t row = own / width, column = own % width;
  const std::int64_t block = column / block_ * parts_ + part, inside = column % block_;
  return {row * columns_ + block * block_ + inside, block_ - inside};
}

PartOrder::Run PartOrder::from_whole(std::int64_t element) const {
  const std::int64_t width = columns_ / parts_;
  const std::int64_t row = element / columns_, column = element % columns_;
  const std::int64_t block = column / block_, inside = column % block_;
  return {block % parts_ * part_count() + row * width + block / parts_ * block_ + inside, block_ - inside};
}

std::vector<ElementRange> translated(const PartOrder& from, ElementRange range, const PartOrder& to) {
  if (from == to) return {range};
  std::vector<ElementRange> ranges;
  for (std::int64_t at = range.begin; at < range.end;) {
    const PartOrder::Run whole = from.in_whole(at);
    const PartOrder::Run there = to.from_whole(whole.begin);
    const std::int64_t count = std::min({whole.count, there.count, range.end - at});
    ranges.push_back({there.begin, there.begin + count});
    at += count;
  }
  return ranges;
}

}  // namespace sim
