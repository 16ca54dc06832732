#pragma once

/// Explains why a case fails at a setting, by experiments in the field, where nothing fits by chance. The
/// experiments are tried in this order:
///
///   calls      which collective is missing, doubled or of another size, on which ranks, at which line
///   terms      each rank holds its own term, or the sum of a part of the group
///   factors    every element is the serial one times, or divided by, a number of the setting (tp, a
///              dimension)
///   inputs     the serial reference gives the same result if one input, or one rank's part of it, counts 0,
///              2, -1 or tp times; the first 1,000 of these changes are tried
///   places     the rows or the columns are right, but lie in other places
///   extent     otherwise: how many elements differ, in which rows and columns, on which ranks, and which
///              tensors before this one are right
///
/// The first wrong tensor is explained, and what ranks draw comes before what they compute. Where nothing
/// fits it, a later tensor that is a multiple of the serial one is named, too; then a layer with one wrong
/// element is run with larger sizes, and an optimizer with each of its flags. Where the field is right and
/// floats are not, a factor is looked for, and the error is one of rounding, precision or order only if
/// rounding each operation to bf16 explains it.
///
/// Exact   an explanation states only what an experiment has shown, for every element of the tensor.

#include <string>

#include "verify/properties/bench.h"
#include "verify/properties/properties.h"

namespace verify {

/// Returns sentences that end with ".". Of a run that breaks a contract only calls are explained, up to where
/// each rank came. Returns "" if nothing is wrong in the field and the property is not serial in floats.
std::string explanation(Bench& bench, const Case& the_case, const Property& property,
                        const CaseSetting& setting);

}  // namespace verify
