#include "verify/program/interrupt.h"

#include <atomic>

namespace verify {

namespace {

std::atomic<bool> asked = false;
static_assert(std::atomic<bool>::is_always_lock_free);  // a signal handler may touch no other

}  // namespace

InterruptKept::InterruptKept() {
  asked = false;
  struct sigaction keep = {};
  keep.sa_handler = [](int) { asked = true; };
  keep.sa_flags = static_cast<int>(SA_RESETHAND | SA_RESTART);  // a second interrupt ends the process
  sigaction(SIGINT, &keep, &before_);
}

InterruptKept::~InterruptKept() { sigaction(SIGINT, &before_, nullptr); }

bool InterruptKept::is_asked() const { return asked; }

bool InterruptibleWork::operator()(std::size_t done, std::size_t total, const std::string& what) {
  if (!progress_) progress_.emplace(output_.err, output_.progress, total, unit_);
  progress_->step(done, what);
  return !interrupt_.is_asked();
}

}  // namespace verify
