#pragma once

/// A context that is an operating system thread. A baton, which only one side holds, ensures that the body
/// and its worker never run at the same time.

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>

#include "sim/fibers/context.h"

namespace sim {

class ThreadContext : public Context {
 public:
  ThreadContext(int rank, std::function<void()> body) : rank_(rank), body_(std::move(body)) {}
  ~ThreadContext() override;

  void resume() override;
  void yield() override;
  bool started() const override { return ended_ || thread_.joinable(); }
  bool ended() const override { return ended_; }

 private:
  void start();
  void hand_over(bool to_body, std::unique_lock<std::mutex>& lock);

  int rank_;
  std::function<void()> body_;
  std::mutex mutex_;
  std::condition_variable passed_;
  bool body_runs_ = false;  // whether the body has the baton; otherwise the worker has it
  bool ended_ = false;
  std::thread thread_;
};

}  // namespace sim
