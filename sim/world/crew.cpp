#include "sim/world/crew.h"

#include <atomic>
#include <cstddef>
#include <fmt/format.h>
#include <system_error>
#include <utility>

#include "sim/base/error.h"
#include "sim/fibers/signal_stack.h"

namespace sim {

// NOLINTNEXTLINE(bugprone-throw-keyword-missing): a list of exceptions, none of which is thrown yet.
Crew::Crew(int threads)
    : thrown_(static_cast<std::size_t>(threads)), begin_(static_cast<std::size_t>(threads)) {
  try {
    for (int worker = 1; worker < threads; ++worker) {
      helpers_.emplace_back([this, worker] { help(worker); });
    }
  } catch (const std::system_error& error) {
    const std::size_t made = helpers_.size();
    dismiss();
    refuse(
        {.code = "thread_limit",
         .option = "--threads",
         .numbers = fmt::format("the system gave only {} of {} threads: {}", made + 1, threads, error.what()),
         .rule = "each worker is a thread",
         .hint = "fewer --threads"});
  }
}

Crew::~Crew() { dismiss(); }

void Crew::dismiss() {
  ends_ = true;
  for (Baton& begin : begin_) begin.pass();
  for (std::thread& helper : helpers_) helper.join();
}

void Crew::help(int worker) {
  require_signal_stack();
  for (;;) {
    begin_[static_cast<std::size_t>(worker)].take();
    if (ends_) return;
    run_job(worker);
    done_.pass();
  }
}

void Crew::run_job(int worker) {
  try {
    (*job_)(worker);
  } catch (...) {
    thrown_[static_cast<std::size_t>(worker)] = std::current_exception();
  }
}

void Crew::for_each_worker(const std::function<void(int)>& job) {
  if (helpers_.empty()) return job(0);
  job_ = &job;
  for (std::size_t worker = 1; worker < begin_.size(); ++worker) begin_[worker].pass();
  run_job(0);
  for (std::size_t worker = 1; worker < begin_.size(); ++worker) done_.take();
  std::exception_ptr first;
  for (std::exception_ptr& thrown : thrown_) {
    const std::exception_ptr taken = std::exchange(thrown, nullptr);
    if (first == nullptr) first = taken;
  }
  if (first != nullptr) std::rethrow_exception(first);
}

void Crew::for_each(std::int64_t count, const std::function<void(std::int64_t)>& job) {
  std::atomic<std::int64_t> next = 0;
  for_each_worker([&](int) {
    for (std::int64_t i = next++; i < count; i = next++) job(i);
  });
}

}  // namespace sim
