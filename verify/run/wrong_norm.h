#pragma once

/// What a wrong norm of gradients is, by the gradients that it counts too often, in part or not at all.
///
/// Exact   the square of a right norm is the sum of the squares of all gradients of its step. A relation
///         holds up to 2^-28 of that square in f64, or 4 times the relative bound by which the norm is
///         judged. It is stated only if the gradients of one name, in all layers, have it alone.

#include <string>

#include "verify/run/wrong_value.h"

namespace verify {

/// Returns the end of the sentence "the norm of the gradients in step 0: ..."; "" if no such relation holds.
std::string explained_norm(const SeenValue& value);

}  // namespace verify
