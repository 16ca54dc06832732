#pragma once

/// Processes that run beside each other, as a launcher starts the ranks of a world: no launcher that this
/// process runs under is seen by them.
///
///   const std::vector<EndedProcess> ended = run_processes({{.arguments = {"program", "words"}, .environment
///   = {"RANK=0"}}});
///
/// Errors  one that cannot be started ends with 127, one that outlives the patience with 124, one that a
///         signal ends with 128 + its number.

#include <chrono>
#include <optional>
#include <string>
#include <vector>

namespace test {

struct ProcessWords {
  std::vector<std::string> arguments;
  std::vector<std::string> environment = {};  // beside this process's own
};

struct EndedProcess {
  int exit_code = 0;
  std::string out;
  std::string err;
};

/// `hung`: one that is waited for by nobody, and killed when the others have ended.
std::vector<EndedProcess> run_processes(const std::vector<ProcessWords>& all, std::chrono::seconds patience,
                                        std::optional<std::size_t> hung = std::nullopt);

/// One of this machine that nobody listens at, and that the system gives to no connection of its own: another
/// one each time.
int free_port();

}  // namespace test
