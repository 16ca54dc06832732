#include "sim/world/thread_context.h"

#include "sim/base/check.h"

namespace sim {

ThreadContext::~ThreadContext() { CHECK(!thread_.joinable()); }

/// Passes the baton and waits until it comes back.
void ThreadContext::hand_over(bool to_body, std::unique_lock<std::mutex>& lock) {
  body_runs_ = to_body;
  passed_.notify_all();
  passed_.wait(lock, [&] { return body_runs_ != to_body; });
}

void ThreadContext::resume() {
  CHECK(!ended_);
  std::unique_lock lock(mutex_);
  if (!thread_.joinable()) {
    thread_ = std::thread([this] {
      std::unique_lock body_lock(mutex_);
      passed_.wait(body_lock, [&] { return body_runs_; });
      body_lock.unlock();
      body_();
      body_lock.lock();
      ended_ = true;
      body_runs_ = false;
      passed_.notify_all();
    });
  }
  hand_over(true, lock);
  if (!ended_) return;
  lock.unlock();
  thread_.join();
}

void ThreadContext::yield() {
  std::unique_lock lock(mutex_);
  hand_over(false, lock);
}

}  // namespace sim
