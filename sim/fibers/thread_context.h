#pragma once

/// A context that is an operating system thread. A baton, which only one side holds, ensures that the body
/// and its worker never run at the same time.
///
/// Shapes  the stack has the size that the system gives to threads, and below it a guard of kGuardBytes
///         (stack_pool.h), as fibers have.

#include <condition_variable>
#include <functional>
#include <mutex>
#include <pthread.h>
#include <utility>

#include "sim/fibers/context.h"

namespace sim {

class ThreadContext : public Context {
 public:
  ThreadContext(int rank, std::function<void()> body) : rank_(rank), body_(std::move(body)) {}
  ~ThreadContext() override;

  void resume() override;
  void yield() override;
  bool started() const override { return ended_ || is_joinable_; }
  bool ended() const override { return ended_; }

 private:
  void start();
  void run_thread();
  void hand_over(bool to_body, std::unique_lock<std::mutex>& lock);

  int rank_;
  std::function<void()> body_;
  std::mutex mutex_;
  std::condition_variable passed_;
  bool body_runs_ = false;  // whether the body has the baton; otherwise the worker has it
  bool ended_ = false;
  bool is_joinable_ = false;
  pthread_t thread_ = {};
};

}  // namespace sim
