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
  Baton() { CHECK(sem_init(&passed_, 0, 0) == 0); }
  ~Baton() { sem_destroy(&passed_); }
  Baton(const Baton&) = delete;
  Baton& operator=(const Baton&) = delete;

  void pass() { CHECK(sem_post(&passed_) == 0); }
  void take() {
    while (sem_wait(&passed_) != 0) CHECK(errno == EINTR);  // a signal interrupts the wait
  }

 private:
  sem_t passed_ = {};
};

}  // namespace sim
