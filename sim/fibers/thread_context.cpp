#include "sim/fibers/thread_context.h"

#include <fmt/format.h>
#include <system_error>

#include "sim/base/check.h"
#include "sim/base/error.h"

namespace sim {

ThreadContext::~ThreadContext() { CHECK(!thread_.joinable()); }

/// Passes the baton to the other side and waits until it comes back.
void ThreadContext::hand_over(bool to_body, std::unique_lock<std::mutex>& lock) {
  body_runs_ = to_body;
  passed_.notify_all();
  passed_.wait(lock, [&] { return body_runs_ != to_body; });
}

void ThreadContext::resume() {
  CHECK(!ended_);
  std::unique_lock lock(mutex_);
  if (!thread_.joinable()) start();
  hand_over(true, lock);
  if (!ended_) return;
  lock.unlock();
  thread_.join();
}

void ThreadContext::start() {
  try {
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
  } catch (const std::system_error& error) {
    refuse({.code = "thread_limit",
            .option = fmt::format("rank {}, a thread of its own", rank_),
            .numbers = error.what(),
            .rule = "the system gives every rank a thread",
            .hint = "fibers (--ranks-as fibers), or fewer ranks"});
  }
}

void ThreadContext::yield() {
  std::unique_lock lock(mutex_);
  hand_over(false, lock);
}

}  // namespace sim
