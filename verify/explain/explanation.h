#pragma once

/// Explains why a case fails at a setting, by experiments in the field, where a relation of many drawn
/// elements does not hold by chance:
///
///   no numbers  (no_numbers.h) where elements that are no numbers come into the run
///   calls       (explained_calls.h) which collective is missing, doubled or of another size, on which ranks
///   published   a rank holds the tensors of another one
///   tensors     (explained_tensors.h) the first wrong tensor, the inputs before all others: what it is
///               (recognisers.h), on which ranks, what before it is right, and without which option all is
///   sites       (explained_sites.h) where no call differs and all elements are numbers: which calls and
///               kernels reach what is wrong
///   resume      (explained_resume.h) what a loaded checkpoint has that the saved training had not
///   other seeds where the field holds: it may hold by chance, as a choice does
///   floats      (explanation.cpp) a factor, an error of rounding, another choice, or a branch that the field
///               does not take, where the field holds with other seeds, too
///
/// What is told of a small tensor is tried at larger sizes, on one rank more and with other seeds, where a
/// coincidence ends. What a right run of the case has, too, is not told: a call that reaches a right tensor
/// is right, and a result that is unused where all is right need not be used.
///
/// A call that is named is followed by the line that makes it.
///
/// Exact   an explanation states only what an experiment has shown, for every element of the tensor.

#include <string>

#include "verify/properties/bench.h"
#include "verify/properties/properties.h"

namespace verify {

/// Returns sentences that end with ".". Of a run that breaks a contract only calls are explained, up to where
/// each rank came. Returns "" if nothing is wrong in the field, and nothing else is known.
std::string explanation(Bench& bench, const Case& the_case, const Property& property,
                        const CaseSetting& setting);

}  // namespace verify
