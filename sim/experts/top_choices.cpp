#include "sim/experts/top_choices.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <type_traits>
#include <utility>

#include "sim/tensor/checks.h"
#include "sim/tensor/ops.h"

namespace sim {

HostScores::HostScores(const Tensor& scores) {
  require_own(scores, "host_scores");
  require_computes(scores, "host_scores");
  rows_ = rows_of(scores);
  columns_ = columns_of(scores);
  is_field_ = scores.dtype() == DType::field;
  const std::vector<std::byte> bytes = host_bytes(scores);
  const auto count = static_cast<std::size_t>(scores.count());
  with_scalar(scores.dtype(), [&](auto scalar) {
    using Scalar = decltype(scalar);
    std::vector<Scalar> values(count);
    if (count > 0) std::memcpy(values.data(), bytes.data(), bytes.size());
    if constexpr (std::is_same_v<Scalar, Field>) {
      elements_ = std::move(values);
    } else if constexpr (std::is_same_v<Scalar, bfloat16>) {
      for (const Scalar value : values) floats_.push_back(to_float(value));
    } else {
      floats_.assign(values.begin(), values.end());
    }
  });
}

bool HostScores::is_larger(std::int64_t a, std::int64_t b) const {
  const auto i = static_cast<std::size_t>(a), j = static_cast<std::size_t>(b);
  if (is_field_) return !(elements_[i] == elements_[j]) && max(elements_[i], elements_[j]) == elements_[i];
  const double x = floats_[i], y = floats_[j];
  return x > y || (x == x && y != y);
}

std::vector<std::int64_t> HostScores::largest(std::vector<std::int64_t> candidates,
                                              std::int64_t count) const {
  std::stable_sort(candidates.begin(), candidates.end(),
                   [this](std::int64_t a, std::int64_t b) { return is_larger(a, b); });
  if (count < static_cast<std::int64_t>(candidates.size()))
    candidates.resize(static_cast<std::size_t>(count));
  return candidates;
}

HostScores HostScores::group_scores(std::int64_t groups, std::int64_t best) const {
  HostScores result;
  result.rows_ = rows_;
  result.columns_ = groups;
  result.is_field_ = is_field_;
  const std::int64_t width = columns_ / groups;
  for (std::int64_t group = 0; group < rows_ * groups; ++group) {
    std::vector<std::int64_t> members(static_cast<std::size_t>(width));
    std::iota(members.begin(), members.end(), group * width);
    double sum = 0;
    Field element;
    for (const std::int64_t member : largest(std::move(members), best)) {
      const auto i = static_cast<std::size_t>(member);
      if (is_field_) element = element + elements_[i];
      if (!is_field_) sum += floats_[i];
    }
    if (is_field_) result.elements_.push_back(element);
    if (!is_field_) result.floats_.push_back(sum);
  }
  return result;
}

}  // namespace sim
