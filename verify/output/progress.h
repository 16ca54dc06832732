#pragma once

/// One line on the terminal that shows the progress of long work, its rate and the time left. Nothing is
/// written without a terminal, and the line is removed at the end.

#include <chrono>
#include <cstddef>
#include <ostream>
#include <string>

namespace verify {

/// Returns a rate in few digits: "0.25", "7.3", "110", "42000".
std::string text_of_rate(double per_second);

class Progress {
 public:
  Progress(std::ostream& out, bool enabled, std::size_t total, std::string unit);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// Must be called before item `done` (0, 1, ...) begins. The line is written at most ten times a second.
  void step(std::size_t done, const std::string& what);

 private:
  std::ostream& out_;
  bool enabled_;
  std::size_t total_;
  std::string unit_;
  std::chrono::steady_clock::time_point start_;
  std::chrono::steady_clock::time_point next_;  // earliest time of the next line
};

}  // namespace verify
