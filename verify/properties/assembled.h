#pragma once

/// A published tensor made whole from what the ranks (of the first replica) hold, as its placement says.
///
/// Shapes  a vector is one row; more than two dimensions are rows of the last one.

#include <cstdint>
#include <string>
#include <vector>

#include "sim/world/simulate.h"
#include "verify/cases/case.h"

namespace verify {

template <typename Value>  // sim::Field, or double for every float
struct Assembled {
  std::int64_t rows = 1;
  std::int64_t columns = 1;
  std::vector<Value> values;
  std::vector<int> ranks;  // that hold each; -1: all

  std::string where(const std::string& name, std::size_t i) const;
};

/// What keeps the outputs of a run from being made whole: one that a rank did not publish, or in another
/// shape than rank 0; "" where nothing does.
std::string missing_output(const sim::RunReport& report, const std::vector<CaseOutput>& outputs);

/// Of a tensor that each of the first tp ranks has published, in one shape.
template <typename Value>
Assembled<Value> assembled(const sim::RunReport& report, const CaseOutput& output, int tp);

/// The elements of a published tensor.
template <typename Value>
std::vector<Value> values_of(const sim::Published& tensor);

}  // namespace verify
