#pragma once

/// A context that is a fiber of Boost.Context on a pooled stack. The stack is taken at the first resume() and
/// given back as soon as the body has ended.
///
/// Calls   every switch tells the sanitizers, and carries along what C++ keeps for each thread about
///         exceptions in flight, so that a rank may wait inside a catch block.

#include <boost/context/fiber.hpp>
#include <functional>

#include "sim/fibers/context.h"
#include "sim/fibers/sanitizer_fiber.h"

namespace sim {

class FiberContext : public Context {
 public:
  FiberContext(StackPool& stacks, int rank, std::function<void()> body)
      : stacks_(stacks), rank_(rank), body_(std::move(body)) {}
  ~FiberContext() override;

  void resume() override;
  void yield() override;
  bool started() const override { return stack_.bottom != nullptr; }
  bool ended() const override { return ended_; }

 private:
  /// What __cxa_get_globals points to: exceptions being handled, and how many are being thrown.
  struct ExceptionsInFlight {
    void* caught = nullptr;
    unsigned int uncaught = 0;
  };
  static ExceptionsInFlight exchange_exceptions(const ExceptionsInFlight& with);
  boost::context::fiber run_body(boost::context::fiber&& worker);

  StackPool& stacks_;
  int rank_;
  std::function<void()> body_;
  Stack stack_;
  boost::context::fiber body_side_;    // while the worker runs
  boost::context::fiber worker_side_;  // while the body runs
  ExceptionsInFlight exceptions_;      // of the side that does not run
  SanitizerFiber sanitizer_;
  bool ended_ = false;
};

}  // namespace sim
