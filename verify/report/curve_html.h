#pragma once

/// The losses of a training as a line chart (inline SVG) and as a table. The losses of the ranks are compared
/// with those of one device.
///
/// Shapes  steps that have both losses are shown. A loss that is not finite breaks the line of the chart, and
///         is shown in the table. The table has at most kMostCurveRows rows, and says if rows are left out.

#include <string>

#include "verify/checks/training_curve.h"

namespace verify {

inline constexpr int kMostCurveRows = 512;

std::string curve_html(const TrainingCurve& curve);

}  // namespace verify
