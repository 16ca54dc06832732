#pragma once

/// The threads that run ranks and move data: the calling thread and threads - 1 helpers. Work is given out in
/// rounds; a round is over when all of its jobs are.
///
/// Calls   for_each_worker: job(worker) once on each, for what is pinned to a worker; for_each: job(i) for i
///         below count, whoever is free.
/// Errors  thread_limit, when the system gives no more threads. What jobs throw leaves the round when all
///         workers are done: of several, what the first worker threw.
/// Exact   who runs a job never reaches a result: jobs of a round touch different things.

#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <thread>
#include <vector>

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
  std::vector<std::exception_ptr> thrown_;  // by worker
  const std::function<void(int)>* job_ = nullptr;
  std::atomic<std::uint32_t> round_ = 0;
  std::atomic<std::uint32_t> busy_ = 0;
  bool ends_ = false;
};

}  // namespace sim
