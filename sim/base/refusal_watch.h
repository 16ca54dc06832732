#pragma once

/// Reports every refusal of a thread before it is thrown. A program may catch a refusal and continue, so that
/// the refusal would otherwise go unnoticed.
///
/// Calls   a world sets the watch of a thread while the thread runs a rank program. on_refusal() need not
///         return.

namespace sim {

struct Refusal;

class RefusalWatch {
 public:
  virtual ~RefusalWatch() = default;
  virtual void on_refusal(const Refusal& refusal) = 0;
};

/// Returns the watch of this thread; null if there is none.
RefusalWatch* refusal_watch();

/// While an object of this class lives, its thread reports its refusals to `watch`.
class WatchedRefusals {
 public:
  explicit WatchedRefusals(RefusalWatch* watch);
  ~WatchedRefusals();
  WatchedRefusals(const WatchedRefusals&) = delete;
  WatchedRefusals& operator=(const WatchedRefusals&) = delete;

 private:
  RefusalWatch* before_;
};

}  // namespace sim
