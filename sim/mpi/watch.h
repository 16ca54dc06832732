#pragma once

/// Watches a call that waits for other processes without a deadline of its own, as some calls of MPI do. If
/// the call is not over in time, this process writes an error with its rank and ends with exit code 3. The
/// launcher then ends the other processes, or they reach their own deadlines.
///
///   const Watch watch({.rank = 2, .deadline = deadline, .what = "MPI_Finalize"});
///   MPI_Finalize();
///
/// Errors  process_silent: written to standard error, not thrown.

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
  std::thread thread_;  // the last member, because the thread uses all the others
};

}  // namespace sim
