#include "sim/world/silence.h"

#include <algorithm>
#include <array>
#include <csignal>
#include <cstddef>
#include <cstdio>
#include <mutex>
#include <pthread.h>
#include <unistd.h>
#include <utility>
#include <vector>

#include "sim/world/rank_state.h"

namespace sim {

namespace {

std::atomic<int> seconds_of_silence = 60;
std::atomic<std::uint32_t> times_asked = 0;

/// The watches of a process, and whether a thread looks at them. It is never destroyed, because that thread
/// may look while the process ends.
struct Watches {
  std::mutex mutex;
  std::vector<SilenceWatch*> all;
  bool are_looked_at = false;
  std::uint32_t answered = silence_asked();  // how often it was asked for when the thread looked last
};

/// A child process begins with watches of its own: a thread of its parent may have held the mutex.
Watches& watches_of_process() {
  static std::mutex mutex;
  static pid_t owner = 0;
  static Watches* of_process = nullptr;
  const std::lock_guard lock(mutex);
  if (owner != getpid()) {
    owner = getpid();
    of_process = new Watches;
  }
  return *of_process;
}

[[noreturn]] void* look_each_second(void* of_process) {
  Watches& looked = *static_cast<Watches*>(of_process);
  for (;;) {
    ::sleep(1);
    const std::uint32_t asked = silence_asked();
    const std::lock_guard lock(looked.mutex);
    const bool is_asked = asked != std::exchange(looked.answered, asked);
    for (SilenceWatch* watch : looked.all) watch->look(is_asked);
  }
}

/// Starts the thread that looks; all signals are left to other threads. It needs little memory.
bool start_looking(Watches& looked) {
  constexpr std::size_t kStackBytes = std::size_t{256} << 10;
  sigset_t all, before;
  pthread_attr_t attributes;
  pthread_t thread;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_attr_init(&attributes);
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  pthread_attr_setstacksize(&attributes, kStackBytes);
  const int error = pthread_create(&thread, &attributes, look_each_second, &looked);
  pthread_attr_destroy(&attributes);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return error == 0;
}

}  // namespace

int silence_seconds() { return seconds_of_silence; }
void set_silence_seconds(int seconds) { seconds_of_silence = seconds; }
void ask_for_silence() { ++times_asked; }
std::uint32_t silence_asked() { return times_asked; }

SilenceWatch::SilenceWatch(int workers)
    : count_(static_cast<std::size_t>(workers)),
      workers_(std::make_unique<std::atomic<const std::atomic<RankState*>*>[]>(count_)) {
  Watches& looked = watches_of_process();
  const std::lock_guard lock(looked.mutex);
  looked.all.push_back(this);
  if (!looked.are_looked_at) looked.are_looked_at = start_looking(looked);
}

SilenceWatch::~SilenceWatch() {
  Watches& looked = watches_of_process();
  const std::lock_guard lock(looked.mutex);
  std::erase(looked.all, this);
}

void SilenceWatch::look(bool is_asked) {
  const std::uint64_t rounds = rounds_.load(std::memory_order_relaxed);
  silent_ = rounds == seen_ ? silent_ + 1 : 0;
  seen_ = rounds;
  if (is_asked || silent_ == silence_seconds()) tell();
}

void SilenceWatch::tell() const {
  for (std::size_t worker = 0; worker < count_; ++worker) {
    const std::atomic<RankState*>* const running = workers_[worker].load(std::memory_order_acquire);
    const RankState* const rank = running == nullptr ? nullptr : running->load(std::memory_order_acquire);
    if (rank == nullptr) continue;
    std::array<char, 100> line{};
    const int length = std::snprintf(line.data(), line.size(), "rank %d has run without a call for %d s\n",
                                     rank->rank, silent_);
    static_cast<void>(!::write(STDERR_FILENO, line.data(), static_cast<std::size_t>(length)));
  }
}

}  // namespace sim
