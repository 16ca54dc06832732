#pragma once

/// The exam of explanations: for every defect that needs code, what `check` says of it, and whether a reader
/// who has only the first sentence would look at the right tensor or call and know what kind of thing is
/// wrong there. What has to be said of a bug of scenarios/faults stands in its file.
///
///   right   it names the tensor or the call, where it is wrong, and a cause, a factor or an arithmetic
///           relation that only this cause has
///   vague   it names where, and nothing about what
///   wrong   it points elsewhere, or states a cause that is not the cause
///
/// Source  The verdicts are an examiner's. The texts on which they were given are kept, so that another text
///         needs another verdict. At least 75 of 100 have to be right.

#include <optional>
#include <string>
#include <vector>

#include "tests/defects/catalogue.h"
#include "verify/campaign/campaign.h"

namespace test {

enum class Verdict { right, vague, wrong };

struct ExamAnswer {
  std::string defect;
  Verdict verdict;
  std::string says;  // how the explanation begins, where "..." stands for any text
};

const std::vector<ExamAnswer>& exam_answers();

/// Returns the answer for the defect of this name; null if nobody examined it.
const ExamAnswer* answer_for(const std::string& defect);

/// Returns "right", "vague" or "wrong".
const char* name_of(Verdict verdict);

/// Returns the failure that a campaign finds, shrinks and explains; none if the defect survives the property.
std::optional<verify::Failure> failure_of(const Defect& defect, const std::string& property,
                                          sim::DType dtype);

/// Returns what `check` prints first of a failure: why, or where nothing explains it, what.
std::string first_sentence(const verify::Failure& failure);

/// Whether a text begins so: "..." is any text.
bool begins_as(const std::string& text, const std::string& says);

}  // namespace test
