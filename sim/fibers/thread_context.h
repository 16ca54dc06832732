#pragma once

/// A context that is an operating system thread. A baton, which only one side holds, ensures that the body
/// and its worker never run at the same time.
///
/// Shapes  the stack has the size that the system gives to threads, and below it a guard of kGuardBytes
///         (stack_pool.h), as fibers have.

#include <functional>
#include <pthread.h>
#include <utility>

#include "sim/fibers/baton.h"
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

  int rank_;
  std::function<void()> body_;
  Baton to_body_;
  Baton to_worker_;
  bool ended_ = false;
  bool is_joinable_ = false;
  pthread_t thread_ = {};
};

}  // namespace sim
