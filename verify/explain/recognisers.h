#pragma once

/// What a wrong tensor is: the recognisers that are tried, one after another, until one fits. Each states an
/// arithmetic relation of the tensor with the serial one, or with other tensors, that holds for every element
/// to be explained. A new recogniser is a function and a row of a table.
///
///   values       (value_recognisers.cpp) no number, zero, a factor, another tensor, places exchanged, a
///                difference that is a multiple of a tensor, a sum of squares without or with one term twice
///   experiments  (experiments.cpp) the serial reference gives the same result with another option, with an
///                input that counts 0, 2, -1 or tp times, with a branch of a sum that is left out or counts
///                twice, or with the ids of another sample
///   partial      (value_recognisers.cpp) what holds of the elements or lines and does not name a cause
///
/// Exact   in the field a relation of many drawn elements does not hold by chance. One of few elements, or of
///         elements of few values, may; explained_tensors.h tries it at larger sizes and with other seeds.

#include <set>
#include <span>
#include <string>

#include "verify/explain/wrong_tensor.h"

namespace verify {

/// The number of times that the reference may still run, for all experiments of one explanation: a failure
/// that is not shrunk may have many inputs and parts.
struct ExperimentBudget {
  int left = 1000;
  bool takes_one() { return left-- > 0; }
};

struct Recogniser {
  const char* name;
  /// Returns what the tensor is, as the end of the sentence "output: ..."; "" if it does not fit.
  std::string (*explain)(const WrongTensor& tensor, ExperimentBudget& budget);
};

std::span<const Recogniser> value_recognisers();
std::span<const Recogniser> experiments();
std::span<const Recogniser> partial_recognisers();

/// Whether the tensor and the serial one have no other elements than 0 and 1, as a map of choices.
bool is_a_choice(const WrongTensor& tensor);

/// Returns the names that the factor of a tensor has at its setting; none where it has no factor.
std::set<std::string> names_of_factor(const WrongTensor& tensor);

/// Returns which elements are wrong: "it differs in 2 of 6 elements: rows 0 to 1, column 2".
std::string text_of_extent(const WrongTensor& tensor);

}  // namespace verify
