#pragma once

/// An exam of what is held against a program: would it have noticed a mistake? Each fault that has a meaning
/// at a call of the program (verify/faults/planned_faults.h) is planted in a run of its own.
///
///   program         a rank raised, or ended with another exit code
///   calls           another finding: calls that do not match, ranks that cannot go on, too many calls
///   comparison      a value is not that of the reference
///   without_effect  every value that is compared is the same, bit for bit, as without the fault
///   missed          nobody notices it; without a comparison there is no other row for it
///   unmet           no call has it, and it does not count
///
/// Shapes  A site is the name of a function of the program, as --plant takes it. `early` is not planted: it
///         is the `late` of the call before. Faults are in the order of layouts, sites and fault_table().
/// Calls   The reference runs once, each layout once without a fault, and once with each of its faults. A run
///         with a fault may make four times the calls of the run without, and 1000 more. One that loops
///         without a call is not ended.
/// Errors  those of layouts_run.h. If a run without a fault does not hold, nothing is planted.

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "verify/run/layouts_run.h"

namespace verify {

struct ProgramExamRequest {
  CommandLine line;  // as of the command run
  std::string called;
  std::vector<std::string> faults = {};   // their names; empty: all
  std::optional<std::int64_t> most = {};  // so many are planted at most, spread evenly over all
  bool compares = false;                  // --layouts or --against
  LayoutsRequest healthy;                 // without faults; its reference is not run without a comparison
};

enum class NoticedBy { program, calls, comparison, without_effect, missed, unmet };

struct ProgramExamRow {
  std::string layout;
  std::string site;
  std::string fault;  // as --plant takes it
  NoticedBy by = NoticedBy::unmet;
  std::string sentence;   // what was noticed first
  std::string reproduce;  // the line of the run
};

struct ProgramExam {
  LayoutsRun healthy;  // the reference, and the layouts without faults
  bool holds = true;   // whether these hold
  std::size_t planned = 0;
  std::vector<ProgramExamRow> rows;
  bool is_whole = true;  // whether it came to its end

  std::int64_t count(NoticedBy by) const;
  std::int64_t noticed() const;
  /// How many faults count: those that are noticed or missed.
  std::int64_t judged() const { return noticed() + count(NoticedBy::missed); }
  int exit_code() const;
};

/// Called before each fault: how many are done, of how many. Returns whether the work goes on.
using ProgramExamGoesOn = std::function<bool(std::size_t done, std::size_t total, const std::string& what)>;

ProgramExamRequest program_exam_request_of(const CommandLine& line, const std::string& called);
/// `print` gets the lines of ranks that run without a fault.
ProgramExam run_program_exam(const ProgramExamRequest& request, const ProgramExamGoesOn& goes_on,
                             const PrintOfRun& print);

}  // namespace verify
