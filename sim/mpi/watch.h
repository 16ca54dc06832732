#pragma once

/// Watches a call that waits for other processes and has no deadline of its own, as some of MPI have not:
/// where it is not over in time, this process says so, with its rank, and ends with exit code 3. A launcher
/// then ends the others, or they come to their own deadlines.
///
///   const Watch watch({.rank = 2, .deadline = deadline, .what = "MPI_Finalize"});
///   MPI_Finalize();
///
/// Errors  written, not thrown: process_silent.

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

namespace sim {

struct WatchedCall {
  int rank = 0;
  std::chrono::milliseconds deadline;
  std::string what;
};

class Watch {
 public:
  explicit Watch(WatchedCall call);
  ~Watch();
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

 private:
  void wait();

  WatchedCall call_;
  std::mutex mutex_;
  std::condition_variable ended_;
  bool is_over_ = false;
  std::thread thread_;  // the last: it sees all the others
};

}  // namespace sim
