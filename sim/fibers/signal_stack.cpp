#include "sim/fibers/signal_stack.h"

#include <csignal>
#include <utility>

#include "sim/fibers/sanitizer_fiber.h"

namespace sim {

namespace {

constexpr std::size_t kBytes = std::size_t{64} << 10;

/// The memory of the stack that this thread had before, for the next world that it runs.
thread_local std::unique_ptr<std::byte[]> spare;

}  // namespace

SignalStack::SignalStack() {
  if (kSanitized) return;
  stack_t present{};
  sigaltstack(nullptr, &present);
  if ((present.ss_flags & SS_DISABLE) == 0) return;
  memory_ = spare != nullptr ? std::move(spare) : std::make_unique_for_overwrite<std::byte[]>(kBytes);
  stack_t own{};
  own.ss_sp = memory_.get();
  own.ss_size = kBytes;
  sigaltstack(&own, nullptr);
}

SignalStack::~SignalStack() {
  if (memory_ == nullptr) return;
  stack_t none{};
  none.ss_flags = SS_DISABLE;
  sigaltstack(&none, nullptr);
  spare = std::move(memory_);
}

}  // namespace sim
