#pragma once

/// One line on the terminal that says how far long work is, its rate and the time left; nothing where there
/// is no terminal. The line is gone when the work is done.

#include <chrono>
#include <cstddef>
#include <ostream>
#include <string>

namespace verify {

class Progress {
 public:
  Progress(std::ostream& out, bool enabled, std::size_t total, std::string unit);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// Before item `done` (0, 1, ...) is begun. Ten lines a second are written at most.
  void step(std::size_t done, const std::string& what);

 private:
  std::ostream& out_;
  bool enabled_;
  std::size_t total_;
  std::string unit_;
  std::chrono::steady_clock::time_point start_;
  std::chrono::steady_clock::time_point next_;  // line
};

}  // namespace verify
