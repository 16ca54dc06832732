#include "sim/world/process_end.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <mutex>
#include <string_view>
#include <sys/syscall.h>
#include <unistd.h>
#include <utility>

#include "sim/base/exception_text.h"
#include "sim/base/printable_text.h"
#include "sim/fibers/running_stack.h"
#include "sim/fibers/sanitizer_fiber.h"
#include "sim/world/running_rank.h"
#include "sim/world/silence.h"
#include "sim/world/virtual_world.h"

namespace sim {

namespace {

constexpr int kBrokenContract = 3;  // the program's exit code for a broken contract

struct Watched {
  int signal;
  const char* meaning;
  struct sigaction before;  // what was there before the ranks ran
};

/// The signals that are handled, in a global because signal handlers belong to the process and get no other
/// argument. Results never depend on it.
std::array<Watched, 5> watched = {{{SIGSEGV, "SIGSEGV, a bad memory access", {}},
                                   {SIGBUS, "SIGBUS, a bad memory access", {}},
                                   {SIGFPE, "SIGFPE, such as a division of integers by zero", {}},
                                   {SIGILL, "SIGILL, an invalid instruction", {}},
                                   {SIGABRT, "SIGABRT, which abort() and assert() raise", {}}}};
std::mutex watches_mutex;
int watches = 0;                    // the number of watches that live in this process
std::atomic<pid_t> watching = {0};  // the process that has watches; 0 if none has
thread_local bool is_telling = false;
thread_local const char* work_name = nullptr;  // of this thread; null if it has none

bool is_watched() { return watching == getpid(); }

/// A text that a handler of a signal may build and write: it uses no allocation and no stream.
class Message {
 public:
  template <typename... Parts>
  void add(const Parts&... parts) {
    (add_one(parts), ...);
  }
  void write() const { static_cast<void>(!::write(STDERR_FILENO, text_.data(), length_)); }

 private:
  void add_one(std::string_view text) {
    const std::size_t length = std::min(text.size(), text_.size() - length_);
    std::memcpy(text_.data() + length_, text.data(), length);
    length_ += length;
  }
  void add_one(std::uint64_t number) {
    std::array<char, 20> digits{};
    std::size_t first = digits.size();
    do {
      digits[--first] = static_cast<char>('0' + number % 10);
      number /= 10;
    } while (number != 0);
    add_one(std::string_view(digits.data() + first, digits.size() - first));
  }
  /// Ranks, counts and sequence numbers are not negative.
  void add_one(std::int64_t number) { add_one(static_cast<std::uint64_t>(number)); }
  void add_one(int number) { add_one(static_cast<std::uint64_t>(number)); }

  std::array<char, 2048> text_{};
  std::size_t length_ = 0;
};

/// Adds what the report of a finding says of a rank's last call (finding.cpp), as a handler of a signal may.
void add_last_call(Message& message, const RankState& rank) {
  message.add("  rank ", rank.rank, "     ");
  if (rank.recorder->calls().empty()) return message.add("had made no call\n");
  const CallRecord call = rank.recorder->calls().back();
  message.add("made as its last call ", name_of(call.operation));
  if (moves_data(call.operation)) message.add(" ", call.count, " x ", name_of(call.dtype));
  message.add(", call ", call.sequence, " of ", call.group->kind, "[", call.group->index, "], at '",
              call.site.name, "' (", call.site.file, ":", call.site.line, ")\n");
}

/// A way in which a program ends its process.
struct Ending {
  const char* code;
  const char* rule;
  const char* hint;
};
constexpr Ending kOverflow = {"stack_overflow", "a rank's stack holds its deepest chain of calls",
                              "a larger --stack-bytes (WorldSpec::stack_bytes; `ulimit -s` for ranks as "
                              "threads), or less recursion and "
                              "smaller arrays on the stack"};
constexpr Ending kCrash = {"rank_crashed", "a rank program runs to its end without a fault",
                           "run it in a debugger, which stops where the signal is raised"};
constexpr Ending kWorkCrash = {"work_crashed", "the reference of a case runs to its end without a fault",
                               "run it in a debugger, which stops where the signal is raised"};
constexpr Ending kTerminated = {"rank_terminated", "no exception leaves a thread that a rank has started",
                                "catch it there, and throw it in the rank (std::exception_ptr)"};
constexpr Ending kExit = {"rank_exited", "a rank program ends by returning, or by an exception",
                          "return or throw instead of making this call"};

/// Writes how the process ends. `rank` is null if no rank is known to end it. There is one message and no
/// second copy of it, because the stack of a handler may be small.
template <typename... Parts>
void tell(const Ending& ending, const RankState* rank, const Parts&... happened) {
  if (is_telling) end_process(kBrokenContract);  // a fault while the message is written
  is_telling = true;
  Message message;
  message.add("\n", ending.code, ": ");
  if (rank == nullptr) {
    message.add(work_name == nullptr ? "a thread that runs no rank" : work_name, " ", happened..., "\n");
  } else {
    message.add("rank ", rank->rank, " ", happened..., "\n");
    add_last_call(message, *rank);
  }
  message.add("  rule       ", ending.rule, "\n  try        ", ending.hint, "\n");
  if (rank != nullptr && work_name != nullptr) message.add("  in         ", work_name, "\n");
  if (rank != nullptr && !rank->world.spec().reproduce.empty())
    message.add("  reproduce  ", rank->world.spec().reproduce, "\n");
  message.write();
  is_telling = false;
}

// ---- overflows and signals

void tell_overflow(const RankState& rank) {
  tell(kOverflow, &rank, "overflowed its stack of ", std::uint64_t{running_stack().bytes}, " bytes");
}

void on_signal(int signal, siginfo_t* info, void*) {
  const auto found =
      std::find_if(watched.begin(), watched.end(), [&](const Watched& one) { return one.signal == signal; });
  const RankState* rank = running_rank();
  if (rank != nullptr && is_watched()) {
    const bool has_address = info->si_code > 0 && (signal == SIGSEGV || signal == SIGBUS);
    if (has_address && is_in_guard(running_stack(), info->si_addr)) {
      tell_overflow(*rank);
    } else {
      tell(kCrash, rank, "received ", found->meaning);
    }
    const bool has_handler = found->before.sa_handler != SIG_DFL && found->before.sa_handler != SIG_IGN;
    if (!has_handler) end_process(kBrokenContract);
  }
  if (rank == nullptr && work_name != nullptr && is_watched()) {
    tell(kWorkCrash, rank, "received ", found->meaning);
    end_process(kBrokenContract);
  }
  // What was there before gets the signal: a fault comes again when the instruction runs again, and a signal
  // that was sent is sent again.
  sigaction(signal, &found->before, nullptr);
  if (info->si_code <= 0) static_cast<void>(raise(signal));
}

struct sigaction quit_before {};

void on_quit(int) { ask_for_silence(); }

/// The running ranks are named at SIGQUIT (silence.h), unless the program has a handler of its own.
void install_quit_handler() {
  sigaction(SIGQUIT, nullptr, &quit_before);
  if (quit_before.sa_handler != SIG_DFL) return;
  struct sigaction action {};
  action.sa_handler = on_quit;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  sigaction(SIGQUIT, &action, nullptr);
}

void restore_quit_handler() {
  struct sigaction present {};
  sigaction(SIGQUIT, nullptr, &present);
  if (present.sa_handler == on_quit) sigaction(SIGQUIT, &quit_before, nullptr);
}

void install_handlers() {
  install_quit_handler();
  struct sigaction action {};
  action.sa_sigaction = on_signal;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigemptyset(&action.sa_mask);
  for (Watched& one : watched) sigaction(one.signal, &action, &one.before);
}

/// Restores the earlier handlers, except where the program has installed a handler of its own since.
void restore_handlers() {
  restore_quit_handler();
  for (const Watched& one : watched) {
    struct sigaction present {};
    sigaction(one.signal, &one.before, &present);
    if (present.sa_sigaction != on_signal) sigaction(one.signal, &present, nullptr);
  }
}

// ---- exits

/// Ends the process with exit code 3 if a rank's program exits, or if another thread claims success.
void on_exit_call(std::string_view call, int exit_code) {
  if (!is_watched()) return;
  const RankState* rank = running_rank();
  if (rank == nullptr && exit_code != 0) return;
  tell(kExit, rank, "called ", call, " before the run was over");
  end_process(kBrokenContract);
}

void on_exit_handler(int exit_code, void*) {
  if (is_watched()) std::fflush(nullptr);
  on_exit_call("exit()", exit_code);
}

void on_quick_exit_handler() { on_exit_call("quick_exit()", 0); }

void register_exit_handlers() {
  on_exit(on_exit_handler, nullptr);
  std::at_quick_exit(on_quick_exit_handler);
}

}  // namespace

NamedWork::NamedWork(const char* name) : before_(std::exchange(work_name, name)) {}

NamedWork::~NamedWork() { work_name = before_; }

void end_terminated_process() {
  if (!is_watched()) return;
  try {
    if (const std::exception_ptr thrown = std::current_exception()) std::rethrow_exception(thrown);
    tell(kTerminated, nullptr, "called std::terminate()");
  } catch (const std::exception& error) {
    tell(kTerminated, nullptr,
         "called std::terminate(), because an exception left it: ", printable_text(text_of(error)));
  } catch (...) {
    tell(kTerminated, nullptr, "called std::terminate(), because an exception left it");
  }
  end_process(kBrokenContract);
}

void end_process(int exit_code) {
  for (;;) syscall(SYS_exit_group, exit_code);
}

void leave_foreign_stack() {
  if (const RankState* rank = running_rank()) tell_overflow(*rank);
  end_process(kBrokenContract);
}

ProcessEndWatch::ProcessEndWatch() {
  static std::once_flag registered;
  std::call_once(registered, register_exit_handlers);
  const std::lock_guard lock(watches_mutex);
  const pid_t here = getpid();
  const pid_t before = watching;
  if (before == 0 && !kSanitized) install_handlers();
  // In a child process the handlers are those of its parent, and the parent's watches are not there.
  if (before != here) watches = 0;
  watching = here;
  ++watches;
}

ProcessEndWatch::~ProcessEndWatch() {
  const std::lock_guard lock(watches_mutex);
  if (--watches > 0) return;
  watching = 0;
  if (!kSanitized) restore_handlers();
}

}  // namespace sim

// A program that is linked with this library calls these in place of those of the C library, which call
// nothing before they end the process. They end it in the same way.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
extern "C" {
// NOLINTNEXTLINE(bugprone-reserved-identifier): the C library's name
void _exit(int exit_code) {
  sim::on_exit_call("_exit()", exit_code);
  sim::end_process(exit_code);
}
// NOLINTNEXTLINE(bugprone-reserved-identifier): the C library's name
void _Exit(int exit_code) noexcept {
  sim::on_exit_call("_Exit()", exit_code);
  sim::end_process(exit_code);
}
}
#endif
