#pragma once

/// Names the calls and kernels that make a run in the field wrong, by changes at one site after another. A
/// change of a call is made between the program and its group: it sees what the program really calls.
///
///   zero      every result of a kernel is zero already, or is not used: to make it zero changes no tensor,
///             and an element of it that is no number reaches the first wrong one
///   no value  every result of a call is zero on some ranks, and what ranks give to the call is not
///   unused    (unused_sites.h) the result of a call is changed, and no tensor differs: it is not used, or
///             comes too late
///   late      the same on some ranks, where it gives them padding alone, and the change of all reaches right
///             tensors and not the first wrong one
///   repaired  (explained_sites.cpp) a simple change at a site makes all tensors right, or the same change at
///             each of several sites of one operation, as those that share a function
///   repeated  (repeated_inputs.h) a call that reaches only wrong tensors has the input of the call before it
///   hidden    where elements are no numbers: one more of a result changes no tensor
///   reaching  where nothing else is found: the tensors that differ when a result is changed are the wrong
///             ones
///
/// Where nothing can be said of a setting, a larger one is searched.
/// Where a site is called over several kinds of groups, all its calls are changed, and those of each kind;
/// where it is called in several layers and that says nothing, those of each layer.
/// What is zero or unused must be so with other seeds and at larger sizes, too; a repair must make all right
/// with other seeds, and of several those are named that do so at larger sizes.
///
/// A training is searched without its second step and its clipping where it is wrong without them, too: they
/// make its tensors no linear functions of the results of calls.
///
/// Exact   A site is named as reaching where the tensors that it reaches are the wrong ones and no others.
///         Where there is none, those are named that reach all wrong tensors and the fewest others, without
///         kernels none of whose calls reaches wrong tensors alone. Nothing is said where more than three
///         calls cannot be told apart.

#include <string>

#include "verify/properties/bench.h"

namespace verify {

/// Returns phrases such as "the wrong tensors are those that 'mlp.forward' reaches", separated by ";", or ""
/// where nothing can be said.
std::string explain_sites(Bench& bench, const Case& the_case, const CaseSetting& setting,
                          const sim::RunReport& report);

}  // namespace verify
