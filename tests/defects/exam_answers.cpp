#include "tests/defects/exam.h"

namespace test {

using enum Verdict;

const std::vector<ExamAnswer>& exam_answers() {
  static const std::vector<ExamAnswer> answers = {};
  return answers;
}

}  // namespace test
