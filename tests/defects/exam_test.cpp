// What an examiner found of the explanations of all defects that need code. That each of them still says what
// was examined is the test of the defects (defects_test.cpp).

#include "tests/defects/exam.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <set>
#include <string>

namespace {

using test::Verdict;

std::int64_t count(Verdict verdict) {
  const auto& all = test::exam_answers();
  return std::count_if(all.begin(), all.end(), [&](const auto& answer) { return answer.verdict == verdict; });
}

TEST(Exam, ExaminesEveryDefectThatNeedsCodeOnce) {
  std::multiset<std::string> defects, answers;
  for (const test::Defect& defect : test::catalogue())
    if (defect.bug == nullptr) defects.insert(defect.name);
  for (const test::ExamAnswer& answer : test::exam_answers()) {
    answers.insert(answer.defect);
    EXPECT_FALSE(answer.says.empty()) << answer.defect;
  }
  EXPECT_EQ(defects, answers);
}

TEST(Exam, ThreeQuartersAreRightAndNoneIsWrong) {
  EXPECT_GE(100 * count(Verdict::right), 75 * std::ssize(test::exam_answers()));
  EXPECT_EQ(count(Verdict::wrong), 0);
}

TEST(DefectsSay, TheComparisonSeesADifference) {
  using test::begins_as;
  EXPECT_TRUE(begins_as("all of it is", ""));
  EXPECT_TRUE(begins_as("all of it is", "all of"));
  EXPECT_TRUE(begins_as("all of it is", "all...is"));
  EXPECT_TRUE(begins_as("all of it is", "...of..."));
  EXPECT_FALSE(begins_as("all of it is", "of"));
  EXPECT_FALSE(begins_as("all of it is", "...is...of"));
}

}  // namespace
