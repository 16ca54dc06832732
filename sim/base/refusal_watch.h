#pragma once

/// Reports every refusal of a thread before it is thrown. A program may catch a refusal and continue, so that
/// the refusal would otherwise go unnoticed.
///
/// Calls   a world sets the watch of a thread while the thread runs a rank program. on_refusal() need not
///         return.

#include <utility>

namespace sim {

struct Refusal;

class RefusalWatch {
 public:
  virtual ~RefusalWatch() = default;
  virtual void on_refusal(const Refusal& refusal) = 0;
};

/// While an object of this class lives, its thread reports its refusals to `watch`.
class WatchedRefusals {
 public:
  explicit WatchedRefusals(RefusalWatch* watch) : before_(std::exchange(watch_, watch)) {}
  ~WatchedRefusals() { watch_ = before_; }
  WatchedRefusals(const WatchedRefusals&) = delete;
  WatchedRefusals& operator=(const WatchedRefusals&) = delete;

  static RefusalWatch* current() { return watch_; }
  /// The thread reports to another watch in the place of the one to which it reports.
  static void hand_over(RefusalWatch* watch) { watch_ = watch; }

 private:
  static inline constinit thread_local RefusalWatch* watch_ = nullptr;
  RefusalWatch* before_;
};

/// Returns the watch of this thread; null if there is none.
inline RefusalWatch* refusal_watch() { return WatchedRefusals::current(); }

}  // namespace sim
