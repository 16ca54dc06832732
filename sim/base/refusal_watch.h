#pragma once

/// Tells somebody of every refusal of a thread before it is thrown. A program may catch a refusal and go on,
/// and then nobody else would learn of it.
///
/// Calls   whoever runs a program of another sets the watch of the thread around it. on_refusal() need not
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

/// While an object of this class lives, its thread tells `watch` of its refusals.
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
