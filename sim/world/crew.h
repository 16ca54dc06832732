#pragma once

/// The threads that run ranks and move data: the calling thread and threads - 1 helpers. They work in rounds,
/// and a round is over when all of its jobs are done.
///
/// Calls   for_each_worker() runs job(worker) once on each worker, for work that is pinned to a worker.
///         for_each() runs job(i) for every i below count, each on any worker that is free.
/// Errors  thread_limit: the system gives no more threads. An exception that a job throws leaves the round
///         when all workers are done; of several, that of the worker with the lowest number.
/// Exact   results do not depend on which worker runs a job, because the jobs of a round write different
///         data.

#include <cstdint>
#include <exception>
#include <functional>
#include <thread>
#include <vector>

#include "sim/fibers/baton.h"

namespace sim {

class Crew {
 public:
  explicit Crew(int threads);
  ~Crew();
  Crew(const Crew&) = delete;
  Crew& operator=(const Crew&) = delete;

  int size() const { return static_cast<int>(helpers_.size()) + 1; }
  void for_each_worker(const std::function<void(int)>& job);
  void for_each(std::int64_t count, const std::function<void(std::int64_t)>& job);

 private:
  void help(int worker);
  void run_job(int worker);
  void dismiss();

  std::vector<std::thread> helpers_;
  std::vector<std::exception_ptr> thrown_;  // one for each worker; null if it threw nothing
  const std::function<void(int)>* job_ = nullptr;
  std::vector<Baton> begin_;  // one for each worker; who has it works on a round
  Baton done_;                // passed by every helper at the end of a round
  bool ends_ = false;
};

}  // namespace sim
