#include "sim/fibers/fiber_context.h"

#include <cxxabi.h>

#include "sim/base/check.h"

namespace sim {

FiberContext::~FiberContext() { SIM_CHECK(ended_ || stack_.bottom == nullptr); }

void FiberContext::run_body(Side worker) {
  turn_->worker = worker;
  sanitizer_.entered();
  body_();
  ended_ = true;
  turn_->last = this;
  sanitizer_.before_end();
  switch_to(turn_->worker);
  SIM_CHECK(false);
}

void FiberContext::resume() {
  SIM_CHECK(!ended_);
  if (stack_.bottom == nullptr) {
    stack_ = stacks_.take();
    body_side_ = make_side(stack_.top(), stack_.all_bytes(),
                           [](Switched left) { static_cast<FiberContext*>(left.data)->run_body(left.fctx); });
    sanitizer_.create();
  }
  const RunningStack running(stack_);
  Turn turn{abi::__cxa_get_globals()};
  turn_ = &turn;
  const auto of_worker = ExceptionsInFlight::of(turn.globals);
  exceptions_.put_into(turn.globals);
  sanitizer_.before_resume(stack_.bottom, stack_.all_bytes());
  const Side from = switch_to(body_side_, this).fctx;
  sanitizer_.after_yield();
  turn.last->body_side_ = from;
  turn.last->exceptions_ = ExceptionsInFlight::of(turn.globals);
  of_worker.put_into(turn.globals);
  if (!turn.last->ended_) return;
  turn.last->sanitizer_.destroy();
  turn.last->stacks_.give_back(turn.last->stack_);
}

void FiberContext::yield() {
  turn_->last = this;
  sanitizer_.before_yield();
  came_back(switch_to(turn_->worker).fctx);
  sanitizer_.entered();
}

}  // namespace sim
