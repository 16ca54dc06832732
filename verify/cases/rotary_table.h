#pragma once

/// The cosines and sines of rotary position embeddings for references: values in double, with a bound for the
/// error of the candidate's values. For bases up to 10,000 the candidate's log, exp and products round the
/// angle 32 times at most; its cos and sin are within two units in the last place.
///
/// Shapes  [S, d/2], one row for each of the positions 0, 1, ...

#include <algorithm>
#include <cmath>
#include <type_traits>

#include "sim/cpu/cpu_device.h"
#include "sim/tensor/ops.h"
#include "sim/tensor/rotary.h"
#include "verify/cases/scalars.h"
#include "verify/reference/matrix.h"

namespace verify {

template <typename Scalar>
reference::Matrix<Scalar> rotary_table(const reference::Number<Scalar>& number, std::int64_t sequence,
                                       std::int64_t channels, std::int64_t base, bool is_sine) {
  const std::int64_t half = channels / 2;
  reference::Matrix<Scalar> table(sequence, half);
  if constexpr (std::is_same_v<Scalar, sim::Field>) {
    // The field has no angles, so the candidate and the reference take the same keyed elements.
    sim::CpuDevice device;
    const auto tables = sim::rotary_tables(device, sim::DType::field, 0, sequence, channels, base);
    const auto values = fields_of(sim::host_bytes(is_sine ? tables.sines : tables.cosines));
    std::copy(values.begin(), values.end(), table.data());
  } else {
    for (Eigen::Index p = 0; p < sequence; ++p) {
      for (Eigen::Index i = 0; i < half; ++i) {
        const double angle =
            static_cast<double>(p) *
            std::pow(static_cast<double>(base), -static_cast<double>(i) / static_cast<double>(half));
        const double value = is_sine ? std::sin(angle) : std::cos(angle);
        table(p, i) = number.stored(number.near(value, angle * 0x1p-48 + 0x1p-50));
      }
    }
  }
  return table;
}

}  // namespace verify
