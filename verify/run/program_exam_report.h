#pragma once

/// What is said of an exam of a program: how many faults are noticed and by what, a row for each function
/// that calls, and each fault that nobody notices, with the line that plants it again.

#include <string>

#include "verify/output/json.h"
#include "verify/run/program_exam.h"

namespace verify {

std::string program_exam_text(const ProgramExamRequest& request, const ProgramExam& exam);
/// verdict; program; interrupted; compares; faults, those that there are; planted; score; noticed, with
/// program, calls and comparison; without_effect, missed, unmet; rows, each with layout, site, fault, by,
/// sentence and reproduce. If a run without a fault does not hold, it is the document of that run.
Json program_exam_json(const ProgramExamRequest& request, const ProgramExam& exam);

}  // namespace verify
