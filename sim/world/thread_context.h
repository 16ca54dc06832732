#pragma once

/// A context that is a thread of the system; the baton makes sure that either the body runs or its worker does.

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

#include "sim/world/context.h"

namespace sim {

class ThreadContext : public Context {
 public:
  explicit ThreadContext(std::function<void()> body) : body_(std::move(body)) {}
  ~ThreadContext() override;

  void resume() override;
  void yield() override;
  bool ended() const override { return ended_; }

 private:
  void hand_over(bool to_body, std::unique_lock<std::mutex>& lock);

  std::function<void()> body_;
  std::mutex mutex_;
  std::condition_variable passed_;
  bool body_runs_ = false;  // who has the baton
  bool ended_ = false;
  std::thread thread_;
};

}  // namespace sim
