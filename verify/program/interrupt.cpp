#include "verify/program/interrupt.h"

#include <atomic>
#include <utility>

namespace verify {

namespace {

std::atomic<bool> asked = false;
static_assert(std::atomic<bool>::is_always_lock_free);  // a signal handler may touch no other

}  // namespace

InterruptibleWork::InterruptibleWork(const Output& output, std::string unit)
    : progress_(output, std::move(unit)) {
  asked = false;
  struct sigaction keep = {};
  keep.sa_handler = [](int) { asked = true; };
  keep.sa_flags = static_cast<int>(SA_RESETHAND | SA_RESTART);  // a second interrupt ends the process
  sigaction(SIGINT, &keep, &before_);
}

bool InterruptibleWork::operator()(std::size_t done, std::size_t total, const std::string& what) {
  progress_.step(done, total, what);
  return !asked;
}

}  // namespace verify
