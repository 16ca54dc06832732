#pragma once

/// A baton that threads pass to each other: who takes it waits until it was passed. pass() wakes one thread,
/// and that thread needs no lock.
///
/// Calls   take() returns once for each pass(). What happens before pass() is seen after take().

#include <cerrno>
#include <semaphore.h>

#include "sim/base/check.h"

namespace sim {

class Baton {
 public:
  Baton() { SIM_CHECK(sem_init(&passed_, 0, 0) == 0); }
  ~Baton() { sem_destroy(&passed_); }
  Baton(const Baton&) = delete;
  Baton& operator=(const Baton&) = delete;

  void pass() { SIM_CHECK(sem_post(&passed_) == 0); }
  void take() {
    while (sem_wait(&passed_) != 0) SIM_CHECK(errno == EINTR);  // a signal interrupts the wait
  }

 private:
  sem_t passed_ = {};
};

}  // namespace sim
