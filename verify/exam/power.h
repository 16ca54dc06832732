#pragma once

/// The power of the properties: how small a relative error they see. The result of every call, and every
/// published tensor, is multiplied by 1 + 2^-k, and the largest k is searched that a property still catches.
///
/// Shapes  A row is a site and a property that sees an error there. The error is on all ranks; for `agree`,
///         which compares ranks, it is at place 1 of each group, and of a published tensor on rank 1.
/// Exact   In each of up to eight drawn settings that reach the site the largest k is found by bisection,
///         which takes for granted that a larger error is caught where a smaller one is. The row has the
///         largest of them. It is a function of the cases, the seed and the largest world, for any number of
///         benches, unless the work is stopped.

#include <array>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "verify/campaign/campaign.h"
#include "verify/cases/case.h"
#include "verify/exam/exam.h"
#include "verify/properties/bench.h"
#include "verify/properties/properties.h"

namespace verify {

/// The largest k that is tried: 1 + 2^-52 is the smallest number above 1 in f64.
inline constexpr int kMostBitsOfPower = 52;
inline constexpr std::array<sim::DType, 4> kDTypesOfPower = {sim::DType::field, sim::DType::f64,
                                                             sim::DType::f32, sim::DType::bf16};

struct PowerRow {
  const Case* the_case = nullptr;
  std::string site;  // of a call, or "tensor." and the name of a published tensor
  const Property* property = nullptr;
  // For each of kDTypesOfPower the largest k; none where the property judges nothing, or sees no error.
  std::array<std::optional<int>, kDTypesOfPower.size()> bits = {};
};

struct Power {
  std::vector<PowerRow> rows;
  bool is_whole = true;
};

/// The cases, the seed and the largest world are those of the request.
Power power_of(const CampaignRequest& request, std::span<Bench> benches, const ExamGoesOn& goes_on);

}  // namespace verify
