#pragma once

/// A sum of elements of the field tower, and of products of them, that is reduced only now and then
/// instead of after every step. It is to field elements what a chain of fused multiply-adds is to
/// doubles.
///
///   FieldSum sum;
///   for (...) sum.add_product(a[k], b[k]);
///   const Field dot = sum.value();
///
/// Shapes  as Field: a level that is retired in one term is retired in the sum.
/// Exact   always, whatever the order. A residue is below its prime p, so a term is at most (p - 1)^2,
///         and the sum after a reduction is at most p - 1. Until the next reduction, kExactProducts terms
///         later, the sum is a whole number of at most kExactProducts (p - 1)^2 + p - 1. For the largest
///         prime of each tower (2057999, 2034239 and 2029439 with four, five and six levels) that is
///         below 2^53 (field.h asserts it). Every product and every partial sum is then a whole number
///         that a double can hold, so none is rounded.

#include <cstddef>
#include <cstdint>

#include "sim/base/field.h"

namespace sim {

class FieldSum {
 public:
  void add(const Field& a) {
    sum_ = by_levels([&]<typename Lanes>(std::size_t level, Lanes) {
      return lanes_at<Lanes>(sum_.residues, level) + lanes_at<Lanes>(a.residues, level);
    });
    count_term();
  }

  void add_product(const Field& a, const Field& b) {
    sum_ = by_levels([&]<typename Lanes>(std::size_t level, Lanes) {
      return lanes_at<Lanes>(sum_.residues, level) +
             lanes_at<Lanes>(a.residues, level) * lanes_at<Lanes>(b.residues, level);
    });
    count_term();
  }

  Field value() const { return reduced(sum_); }

 private:
  void count_term() {
    if (++terms_ < kExactProducts) return;
    sum_ = reduced(sum_);
    terms_ = 0;
  }

  Field sum_;
  std::int64_t terms_ = 0;  // terms added since the last reduction
};

}  // namespace sim
