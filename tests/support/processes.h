#pragma once

/// Runs processes beside each other, as a launcher starts the ranks of a world. They do not see the variables
/// of a launcher under which this process itself runs.
///
///   const std::vector<EndedProcess> ended = run_processes({{.arguments = {"program", "words"}, .environment
///   = {"RANK=0"}}});
///
/// Errors  The exit code is 127 for a process that cannot be started, 124 for one that outlives the patience,
///         and 128 + the number of the signal for one that a signal ends.

#include <chrono>
#include <optional>
#include <string>
#include <vector>

namespace test {

struct ProcessWords {
  std::vector<std::string> arguments;
  std::vector<std::string> environment = {};  // added to the environment of this process
};

struct EndedProcess {
  int exit_code = 0;
  std::string out;
  std::string err;
};

/// Runs all processes until they end. `hung` is a process that nobody waits for and that is killed when
/// the others have ended.
std::vector<EndedProcess> run_processes(const std::vector<ProcessWords>& all, std::chrono::seconds patience,
                                        std::optional<std::size_t> hung = std::nullopt);

/// Returns a port of this machine that nobody listens on and that the system does not give to
/// connections of its own. Each call returns another port.
int free_port();

}  // namespace test
