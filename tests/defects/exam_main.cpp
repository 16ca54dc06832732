// Prints the exam of explanations as a table: defect, verdict, what `check` says first. With a name as its
// argument it prints the defects whose names contain it. `exam --catalogue` does so for the bugs of
// scenarios/faults.

#include <fmt/format.h>
#include <string>

#include "tests/defects/exam.h"

int main(int count, char** arguments) {
  const std::string only = count > 1 ? arguments[1] : "";
  fmt::print("| Defect | Verdict | What `check` says |\n|---|---|---|\n");
  for (const test::Defect& defect : test::catalogue()) {
    if (defect.bug != nullptr || defect.name.find(only) == std::string::npos) continue;
    const auto failure = test::failure_of(defect, defect.property, sim::DType::field);
    const std::string says = failure ? test::first_sentence(*failure) : "(it survives)";
    const test::ExamAnswer* answer = test::answer_for(defect.name);
    const bool is_examined = answer != nullptr && test::begins_as(says, answer->says);
    fmt::print("| {} | {} | {} |\n", defect.name, is_examined ? name_of(answer->verdict) : "not examined",
               says);
  }
}
