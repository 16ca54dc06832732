#pragma once

/// The losses of a training as a line chart (inline SVG) and as a table: those of the ranks over those of one
/// device.
///
/// Shapes  steps that have both; a loss that is no finite number breaks the line and stands in the table. The
///         table has at most kMostCurveRows rows, and says when it has not all.

#include <string>

#include "verify/checks/training_curve.h"

namespace verify {

inline constexpr int kMostCurveRows = 512;

std::string curve_html(const TrainingCurve& curve);

}  // namespace verify
