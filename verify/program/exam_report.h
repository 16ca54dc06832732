#pragma once

/// What an exam found: its tables by case and by fault, its score, and what was missed; or the document.

#include <string>

#include "verify/exam/exam.h"
#include "verify/output/output.h"

namespace verify {

/// Counts of some rows of an exam. Shares are of 1, and 1 where there is nothing to share.
struct ExamScore {
  std::int64_t caught = 0;
  std::int64_t equivalent = 0;
  std::int64_t missed = 0;
  std::int64_t explained = 0;   // of those that were caught
  std::int64_t site_right = 0;  // of those that were explained: how many explanations name the site
  std::int64_t rank_right = 0;
  std::int64_t kind_right = 0;

  void add(const ExamRow& row);
  double score() const;
  double share(std::int64_t right) const;
};

ExitCode exit_code_of(const Exam& exam);

/// Writes the result as text, or as one JSON document. `called` is the program that a line uses to reproduce
/// what was missed.
void write_exam(const ExamRequest& request, const Exam& exam, bool as_json, const std::string& called,
                const Output& output);

}  // namespace verify
