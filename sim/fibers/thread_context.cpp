#include "sim/fibers/thread_context.h"

#include <cstring>
#include <fmt/format.h>

#include "sim/base/check.h"
#include "sim/base/error.h"
#include "sim/fibers/running_stack.h"
#include "sim/fibers/signal_stack.h"

namespace sim {

ThreadContext::~ThreadContext() { CHECK(!is_joinable_); }

/// Passes the baton to the other side and waits until it comes back.
void ThreadContext::hand_over(bool to_body, std::unique_lock<std::mutex>& lock) {
  body_runs_ = to_body;
  passed_.notify_all();
  passed_.wait(lock, [&] { return body_runs_ != to_body; });
}

void ThreadContext::resume() {
  CHECK(!ended_);
  std::unique_lock lock(mutex_);
  if (!is_joinable_) start();
  hand_over(true, lock);
  if (!ended_) return;
  lock.unlock();
  pthread_join(thread_, nullptr);
  is_joinable_ = false;
}

void ThreadContext::run_thread() {
  const SignalStack signals;
  const RunningStack running(stack_of_this_thread());
  std::unique_lock lock(mutex_);
  passed_.wait(lock, [&] { return body_runs_; });
  lock.unlock();
  body_();
  lock.lock();
  ended_ = true;
  body_runs_ = false;
  passed_.notify_all();
}

void ThreadContext::start() {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setguardsize(&attributes, kGuardBytes);
  const auto run = [](void* context) -> void* {
    static_cast<ThreadContext*>(context)->run_thread();
    return nullptr;
  };
  const int error = pthread_create(&thread_, &attributes, run, this);
  pthread_attr_destroy(&attributes);
  is_joinable_ = error == 0;
  if (is_joinable_) return;
  refuse({.code = "thread_limit",
          .option = fmt::format("--ranks-as threads, rank {}", rank_),
          .numbers = fmt::format("the system starts no thread for it: {}", std::strerror(error)),
          .rule = "every rank has a thread of its own",
          .hint = "--ranks-as fibers, or fewer ranks"});
}

void ThreadContext::yield() {
  std::unique_lock lock(mutex_);
  hand_over(false, lock);
}

}  // namespace sim
