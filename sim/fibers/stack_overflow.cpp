#include "sim/fibers/stack_overflow.h"

#include <algorithm>
#include <array>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <string_view>
#include <unistd.h>

namespace sim {

namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kWatches = false;
#else
constexpr bool kWatches = true;
#endif

constexpr std::size_t kSignalStackBytes = std::size_t{64} << 10;
constexpr int kBrokenContract = 3;  // the program's exit code for a broken contract

struct Running {
  Stack stack;
  int rank = -1;
};

/// The rank that this thread runs. It is a thread-local global because a signal handler is given only the
/// address of the fault. Only messages depend on it, never results.
thread_local Running running;
struct sigaction before;

/// A message that a signal handler may build and write: it uses no allocation and no stream.
class Message {
 public:
  void add(std::string_view text) {
    const std::size_t length = std::min(text.size(), text_.size() - length_);
    std::memcpy(text_.data() + length_, text.data(), length);
    length_ += length;
  }
  void add(std::uint64_t number) {
    std::array<char, 20> digits{};
    std::size_t first = digits.size();
    do {
      digits[--first] = static_cast<char>('0' + number % 10);
      number /= 10;
    } while (number != 0);
    add(std::string_view(digits.data() + first, digits.size() - first));
  }
  void write() const { static_cast<void>(!::write(STDERR_FILENO, text_.data(), length_)); }

 private:
  std::array<char, 512> text_{};
  std::size_t length_ = 0;
};

void on_fault(int, siginfo_t* info, void*) {
  const auto* address = static_cast<const std::byte*>(info->si_addr);
  const std::byte* bottom = running.stack.bottom;
  if (bottom == nullptr || address >= bottom || address < bottom - kGuardBytes) {
    // This fault is not an overflow of a rank's stack. The previous handler is restored, and it gets the
    // fault when the instruction runs again.
    sigaction(SIGSEGV, &before, nullptr);
    return;
  }
  Message message;
  message.add("\nstack_overflow: rank ");
  message.add(static_cast<std::uint64_t>(running.rank));
  message.add(" overflowed its stack of ");
  message.add(running.stack.bytes);
  message.add(
      " bytes\n  rule  a rank's stack holds its deepest chain of calls\n"
      "  try   --stack-bytes (WorldSpec::stack_bytes), or less recursion and smaller arrays on the stack\n");
  message.write();
  _exit(kBrokenContract);
}

void install_handler() {
  struct sigaction action {};
  action.sa_sigaction = on_fault;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigemptyset(&action.sa_mask);
  sigaction(SIGSEGV, &action, &before);
}

}  // namespace

StackOverflowWatch::StackOverflowWatch() {
  if (!kWatches) return;
  static std::once_flag installed;
  std::call_once(installed, install_handler);
  stack_t present{};
  sigaltstack(nullptr, &present);
  if ((present.ss_flags & SS_DISABLE) == 0) return;
  signal_stack_ = std::make_unique_for_overwrite<std::byte[]>(kSignalStackBytes);
  stack_t own{};
  own.ss_sp = signal_stack_.get();
  own.ss_size = kSignalStackBytes;
  sigaltstack(&own, nullptr);
}

StackOverflowWatch::~StackOverflowWatch() {
  running = {};
  if (signal_stack_ == nullptr) return;
  stack_t none{};
  none.ss_flags = SS_DISABLE;
  sigaltstack(&none, nullptr);
}

void note_running(const Stack& stack, int rank) {
  if (kWatches) running = {stack, rank};
}

}  // namespace sim
