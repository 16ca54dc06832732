#pragma once

/// Names, on standard error, the ranks that run for long without a call, because no report comes while a rank
/// waits for something that is not a call: a mutex, a pipe, a sleep, or a loop that does not end.
///
///   rank 3 has run without a call for 60 s
///
/// Calls   each world has a SilenceWatch while its ranks run. A line is written when no rank has stopped for
///         silence_seconds(), and, of each rank that runs then, when the process receives SIGQUIT. The run
///         goes on.
/// Exact   nothing that is computed depends on it. One thread of the process looks once a second, so that a
///         rank is named up to two seconds late. A process without threads to spare has no watch, and a child
///         process that a rank forked has none. If the process has a handler of SIGQUIT of its own, or is a
///         sanitizer build, the signal is left to it.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

namespace sim {

class RankState;

/// How long ranks run without a call before they are named: 60 s, which is chosen. Tests set it.
int silence_seconds();
void set_silence_seconds(int seconds);

/// Asks for a line of each rank that runs. Handlers of signals may call it.
void ask_for_silence();
/// Returns how often it was asked for.
std::uint32_t silence_asked();

class SilenceWatch {
 public:
  explicit SilenceWatch(int workers);
  ~SilenceWatch();
  SilenceWatch(const SilenceWatch&) = delete;
  SilenceWatch& operator=(const SilenceWatch&) = delete;

  /// The calling thread is this worker, and runs the rank to which `running` points.
  void run_on(int worker, const std::atomic<RankState*>& running) {
    workers_[static_cast<std::size_t>(worker)].store(&running, std::memory_order_release);
  }
  /// All ranks that ran have stopped.
  void end_round() { rounds_.store(rounds_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed); }
  /// A second has passed. The thread that looks calls it.
  void look(bool is_asked);

 private:
  void tell() const;

  std::size_t count_;
  std::unique_ptr<std::atomic<const std::atomic<RankState*>*>[]> workers_;
  std::atomic<std::uint64_t> rounds_ = 0;
  std::uint64_t seen_ = 0;  // rounds, when it looked last
  int silent_ = 0;          // for how many seconds there were no more
};

}  // namespace sim
