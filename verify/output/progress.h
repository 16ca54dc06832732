#pragma once

/// One line on the terminal that shows the progress of long work, its rate and about how long the rest takes.
/// It is removed at the end. Without a terminal, a line is written every 30 s.

#include <chrono>
#include <csignal>
#include <cstddef>
#include <optional>
#include <string>
#include <utility>

#include "verify/output/output.h"

namespace verify {

/// Returns a rate in few digits: "0.25", "7.3", "110", "42000".
std::string text_of_rate(double per_second);

class Progress {
 public:
  Progress(const Output& output, std::string unit) : output_(output), unit_(std::move(unit)) {}
  ~Progress() { end(); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// Must be called before item `done` (0, 1, ...) begins. On a terminal, the line is written at most ten
  /// times a second.
  void step(std::size_t done, std::size_t total, const std::string& what);
  /// As step(), for work whose total is not known.
  void count(std::size_t done);
  /// Removes the line.
  void end();

 private:
  using Time = std::chrono::steady_clock::time_point;

  /// Returns the seconds since the first step if a line is due.
  std::optional<double> seconds_if_due();
  void write(const std::string& text);

  const Output& output_;
  std::string unit_;
  std::optional<Time> start_;  // of the first step
  Time next_;                  // earliest time of the next line
};

/// Long work, with its line of progress, that an interrupt from the keyboard (SIGINT) ends early, so that its
/// result so far is still written. There is one object at a time. The first interrupt is kept as long as the
/// object lives; a second one ends the process, as it would without the object.
///
///   InterruptibleWork work(output, "runs");
///   while (done < total && work(done, total, "mlp serial")) ...;
class InterruptibleWork {
 public:
  /// Its progress is shown in items of this unit.
  InterruptibleWork(const Output& output, std::string unit);
  ~InterruptibleWork() { sigaction(SIGINT, &before_, nullptr); }
  InterruptibleWork(const InterruptibleWork&) = delete;
  InterruptibleWork& operator=(const InterruptibleWork&) = delete;

  /// Must be called before item `done` of `total` begins. Returns whether the work goes on.
  bool operator()(std::size_t done, std::size_t total, const std::string& what);
  /// Removes the line of progress. An interrupt is still kept.
  void end() { progress_.end(); }

 private:
  struct sigaction before_ = {};
  Progress progress_;
};

}  // namespace verify
