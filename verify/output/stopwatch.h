#pragma once

/// Measures how long the parts of a task take, by the clock of this machine. The seconds are only shown, for
/// example in a JUnit file; no result may depend on them.
///
/// Calls   begin() ends the part before it. A part that begins again is continued. One thread uses a
///         stopwatch.

#include <chrono>
#include <map>
#include <string>

namespace verify {

class Stopwatch {
 public:
  void begin(const std::string& part);
  /// Ends the last part. Returns the seconds of each part.
  std::map<std::string, double> stop();

 private:
  void end_part();

  std::string part_;  // empty if none has begun
  std::chrono::steady_clock::time_point since_;
  std::map<std::string, double> seconds_;
};

}  // namespace verify
