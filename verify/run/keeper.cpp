#include "verify/run/keeper.h"

#include <array>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <optional>
#include <poll.h>
#include <string>
#include <string_view>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

namespace verify {

namespace {

/// Returns the parent of a process, which stands behind its name and its state: "7 (python3) S 5 ...".
pid_t parent_of(const std::string& process) {
  std::ifstream file("/proc/" + process + "/stat");
  std::string line;
  std::getline(file, line, '\0');  // a name may have a newline
  const std::size_t name_end = line.rfind(") ");
  int parent = 0;
  if (name_end != std::string::npos && name_end + 4 < line.size())
    std::from_chars(line.data() + name_end + 4, line.data() + line.size(), parent);
  return parent;
}

std::vector<pid_t> children() {
  std::vector<pid_t> all;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", error)) {
    const std::string name = entry.path().filename().string();
    pid_t process = 0;
    const auto [end, wrong] = std::from_chars(name.data(), name.data() + name.size(), process);
    const bool is_process = wrong == std::errc() && end == name.data() + name.size();
    if (is_process && parent_of(name) == getpid()) all.push_back(process);
  }
  return all;
}

/// Has ranks write where they stand, which the starter passes on to them, and gives them time to. A program
/// has its own use of the other signals.
void ask_where(pid_t starter) {
  constexpr timespec kTime = {.tv_sec = 0, .tv_nsec = 300'000'000};
  kill(starter, SIGRTMAX);
  nanosleep(&kTime, nullptr);
}

/// Ends all children but one, and those that become children of this process meanwhile.
void end_all_but(pid_t kept) {
  for (;;) {
    std::vector<pid_t> others = children();
    std::erase(others, kept);
    if (others.empty()) return;
    for (const pid_t child : others) kill(child, SIGKILL);
    for (const pid_t child : others) waitpid(child, nullptr, 0);
  }
}

/// Waits for children that have ended. Returns how `starter` has, if it is one of them.
std::optional<int> status_of(pid_t starter) {
  std::optional<int> found;
  int status = 0;
  for (pid_t ended; (ended = waitpid(-1, &status, WNOHANG)) > 0;)
    if (ended == starter) found = status;
  return found;
}

/// Ends what ranks have left when `life` asks for it. Returns false at its end.
bool sweeps(pid_t starter, int life) {
  char asked = 0;
  const ssize_t got = read(life, &asked, 1);
  if (got <= 0) return got < 0 && errno == EINTR;
  end_all_but(starter);
  return send(life, &asked, 1, MSG_NOSIGNAL) == 1;
}

/// Waits until the starter ends, or `life` does. Returns how the starter has ended.
std::optional<int> wait_for_end(pid_t starter, int life, int child_signals) {
  for (;;) {
    std::array<pollfd, 2> waiting = {
        {{.fd = life, .events = POLLIN}, {.fd = child_signals, .events = POLLIN}}};
    if (poll(waiting.data(), waiting.size(), -1) < 0) continue;
    signalfd_siginfo signal;
    if (waiting[1].revents != 0 && read(child_signals, &signal, sizeof(signal)) > 0)
      if (const std::optional<int> status = status_of(starter)) return status;
    if (waiting[0].revents != 0 && !sweeps(starter, life)) return std::nullopt;
  }
}

/// Ends this process as another one has.
[[noreturn]] void end_as(int status) {
  if (WIFSIGNALED(status)) {
    const rlimit no_core = {.rlim_cur = 0, .rlim_max = 0};
    setrlimit(RLIMIT_CORE, &no_core);
    std::signal(WTERMSIG(status), SIG_DFL);
    std::raise(WTERMSIG(status));
  }
  _exit(WEXITSTATUS(status));
}

/// What the handler of signals knows, in globals because it gets no other argument. No result depends on it.
std::atomic<int> kept_life = -1;
std::atomic<pid_t> kept_keeper = -1;
constexpr std::array<int, 3> kInterrupts = {SIGINT, SIGTERM, SIGHUP};
std::array<struct sigaction, kInterrupts.size()> before;
static_assert(std::atomic<int>::is_always_lock_free);

/// Ends the keeper, for which it waits a while, and this process. It calls what a handler may call.
void on_interrupt(int signal) {
  constexpr std::string_view kSays = "\nshardproof: interrupted, and all ranks are ended\n";
  constexpr timespec kStep = {.tv_sec = 0, .tv_nsec = 5'000'000};
  constexpr int kMostSteps = 1000;
  close(kept_life);
  for (int step = 0; step < kMostSteps && waitpid(kept_keeper, nullptr, WNOHANG) == 0; ++step)
    nanosleep(&kStep, nullptr);
  static_cast<void>(!write(STDERR_FILENO, kSays.data(), kSays.size()));
  _exit(128 + signal);
}

}  // namespace

void become_keeper(int life, const std::function<void()>& become, const std::function<void()>& forget) {
  const pid_t keeper = getpid();
  setpgid(0, 0);
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  sigset_t of_children, blocked_before;
  sigemptyset(&of_children);
  sigaddset(&of_children, SIGCHLD);
  sigprocmask(SIG_BLOCK, &of_children, &blocked_before);
  const int child_signals = signalfd(-1, &of_children, SFD_CLOEXEC);
  std::signal(SIGCHLD,
              SIG_DFL);  // whoever has started this process may ignore it, and nobody could wait then
  const auto terminates_before = std::signal(SIGTERM, SIG_IGN);  // it is for the program, whose group this is
  const pid_t starter = child_signals < 0 ? -1 : fork();
  if (starter == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != keeper) _exit(1);
    std::signal(SIGTERM, terminates_before);
    sigprocmask(SIG_SETMASK, &blocked_before, nullptr);
    become();
  }
  forget();
  if (starter < 0) _exit(1);
  const std::optional<int> status = wait_for_end(starter, life, child_signals);
  if (!status) ask_where(starter);
  end_all_but(-1);
  end_as(status.value_or(0));
}

void keeper_sweeps(int life) {
  char asked = 'e';
  if (send(life, &asked, 1, MSG_NOSIGNAL) != 1) return;
  while (read(life, &asked, 1) < 0 && errno == EINTR) continue;
}

InterruptsEndKeeper::InterruptsEndKeeper(int life, int keeper) {
  kept_life = life;
  kept_keeper = keeper;
  struct sigaction action = {};
  action.sa_handler = on_interrupt;
  for (const int signal : kInterrupts) sigaddset(&action.sa_mask, signal);
  for (std::size_t i = 0; i < kInterrupts.size(); ++i) {
    sigaction(kInterrupts[i], nullptr, &before[i]);
    if (before[i].sa_handler != SIG_IGN) sigaction(kInterrupts[i], &action, nullptr);
  }
}

InterruptsEndKeeper::~InterruptsEndKeeper() {
  for (std::size_t i = 0; i < kInterrupts.size(); ++i) sigaction(kInterrupts[i], &before[i], nullptr);
}

}  // namespace verify
