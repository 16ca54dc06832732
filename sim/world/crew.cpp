#include "sim/world/crew.h"

#include "sim/world/stack_overflow.h"

namespace sim {

Crew::Crew(int threads) {
  for (int worker = 1; worker < threads; ++worker) helpers_.emplace_back([this, worker] { help(worker); });
}

Crew::~Crew() {
  ends_ = true;
  ++round_;
  round_.notify_all();
  for (std::thread& helper : helpers_) helper.join();
}

void Crew::help(int worker) {
  const StackOverflowWatch watch;
  for (std::uint32_t seen = 0;;) {
    round_.wait(seen);
    ++seen;
    if (ends_) return;
    (*job_)(worker);
    if (--busy_ == 0) busy_.notify_one();
  }
}

void Crew::for_each_worker(const std::function<void(int)>& job) {
  if (helpers_.empty()) return job(0);
  job_ = &job;
  busy_ = static_cast<std::uint32_t>(helpers_.size());
  ++round_;
  round_.notify_all();
  job(0);
  for (std::uint32_t left = busy_; left != 0; left = busy_) busy_.wait(left);
}

void Crew::for_each(std::int64_t count, const std::function<void(std::int64_t)>& job) {
  std::atomic<std::int64_t> next = 0;
  for_each_worker([&](int) {
    for (std::int64_t i = next++; i < count; i = next++) job(i);
  });
}

}  // namespace sim
