#pragma once

/// The outcomes of a command as build servers read them: JUnit XML, and annotations of GitHub Actions.
///
///   OutcomeSuite suite{.name = "mlp", .outcomes = {{.name = "serial"}}};
///   file.write(junit_text("shardproof check", {suite}));
///   out << annotations_text({suite});
///
/// Shapes  A suite is a testsuite, and an outcome a testcase. A problem is an annotation: an error, or a
///         warning for a skipped check and for a warning. It stands at its own file and line; otherwise in
///         the file of the suite, at the line that gives its option.
/// Exact   The texts are well-formed for any bytes of a name or a message.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/base/error.h"

namespace verify {

struct Outcome {
  std::string name;
  std::string problem = {};  // "failure", "error" or "skipped"; "": it holds
  std::string type = {}, message = {}, text = {};
  std::string option = {};  // "--world-size", if a line of the suite's file is to be looked at
  std::string file = {};
  std::int64_t line = 0;
  std::optional<double> seconds = {};
};

struct OutcomeSuite {
  std::string name;
  std::string file = {};  // the scenario, or what --from reads
  std::vector<Outcome> outcomes = {};
  std::vector<Outcome> warnings = {};  // annotations only
  std::string said = {};               // what is no testcase
  std::optional<double> seconds = {};
};

/// Returns the outcome of a refusal.
Outcome outcome_of(const sim::Refusal& refusal, const std::string& reproduce = "");

/// Returns the document of these suites. A name that occurs again in a suite gets a number, because readers
/// identify a testcase by its name.
std::string junit_text(const std::string& name, const std::vector<OutcomeSuite>& suites);

/// Returns a line for each problem and warning: "::error file=job.sh,line=7,title=...::...".
std::string annotations_text(const std::vector<OutcomeSuite>& suites);

/// Returns the last line of a text file that gives this option, as a script, a scenario, YAML or a log does:
/// "--world-size 8", "world-size = 8", "world_size: 8" or "world_size ... 8". 0 if there is none.
std::int64_t line_of_option(const std::string& path, const std::string& option);

}  // namespace verify
