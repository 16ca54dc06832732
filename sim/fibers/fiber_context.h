#pragma once

/// A context that is a fiber of Boost.Context. It takes its stack from a pool at the first resume() and gives
/// it back as soon as the body has ended.
///
/// Calls   every switch informs the sanitizers. It also swaps the state of exceptions in flight, which the
///         C++ runtime keeps for each thread, so that a rank may wait inside a catch block.

#include <boost/context/fiber.hpp>
#include <functional>

#include "sim/fibers/context.h"
#include "sim/fibers/sanitizer_fiber.h"

namespace sim {

class FiberContext : public Context {
 public:
  FiberContext(StackPool& stacks, std::function<void()> body) : stacks_(stacks), body_(std::move(body)) {}
  ~FiberContext() override;

  void resume() override;
  void yield() override;
  bool started() const override { return stack_.bottom != nullptr; }
  bool ended() const override { return ended_; }

 private:
  /// The state that __cxa_get_globals points to: the exceptions that are being handled, and the number of
  /// those that are being thrown.
  struct ExceptionsInFlight {
    void* caught = nullptr;
    unsigned int uncaught = 0;
  };
  void exchange_exceptions(void* globals);
  boost::context::fiber run_body(boost::context::fiber&& worker);

  StackPool& stacks_;
  std::function<void()> body_;
  Stack stack_;
  boost::context::fiber body_side_;    // the suspended body, while the worker runs
  boost::context::fiber worker_side_;  // the suspended worker, while the body runs
  ExceptionsInFlight exceptions_;      // exceptions of the side that is suspended
  SanitizerFiber sanitizer_;
  bool ended_ = false;
};

}  // namespace sim
