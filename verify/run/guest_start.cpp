#include "verify/run/guest_start.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#include "verify/output/refusal_table.h"

namespace verify {

namespace {

/// Returns the words with the client in front of the program: "python -u FOLDER/begin.py train.py". The
/// option -u also counts where Python is told to ignore its variables.
std::vector<std::string> with_client(const StartCommand& command) {
  std::vector<std::string> all = command.python.interpreter;
  all.insert(all.end(), {"-u", command.client_folder + "/begin.py"});
  all.insert(all.end(), command.python.program.begin(), command.python.program.end());
  return all;
}

[[noreturn]] void become(const StartCommand& command, int control, int output, int failure) {
  fcntl(control, F_SETFD, 0);
  dup2(output, STDOUT_FILENO);
  dup2(output, STDERR_FILENO);
  const int nothing = open("/dev/null", O_RDONLY);
  if (nothing >= 0) dup2(nothing, STDIN_FILENO);
  setenv("SHARDPROOF_RUNS", std::to_string(control).c_str(), 1);
  for (const auto& [name, value] :
       {std::pair("OMP_NUM_THREADS", "1"), std::pair("TORCHDYNAMO_DISABLE", "1"),
        std::pair("CUDA_DEVICE_MAX_CONNECTIONS", "1"), std::pair("MASTER_ADDR", "127.0.0.1")})
    setenv(name, value, 0);
  for (const auto& [name, value] : command.variables) setenv(name.c_str(), value.c_str(), 1);
  const std::vector<std::string> words = with_client(command);
  std::vector<char*> arguments;
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  execvp(arguments.front(), arguments.data());
  const int reason = errno;
  const ssize_t told = write(failure, &reason, sizeof(reason));
  _exit(told == sizeof(reason) ? 127 : 126);
}

/// Sends some descriptors, and one byte that says whether more of the run follow.
void send_descriptors(int to, const int* first, std::size_t count, char more) {
  iovec byte = {.iov_base = &more, .iov_len = 1};
  std::vector<char> room(CMSG_SPACE(count * sizeof(int)));
  msghdr message = {};
  message.msg_iov = &byte;
  message.msg_iovlen = 1;
  message.msg_control = room.data();
  message.msg_controllen = room.size();
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(count * sizeof(int));
  std::memcpy(CMSG_DATA(header), first, count * sizeof(int));
  while (sendmsg(to, &message, MSG_NOSIGNAL) < 0) {
    if (errno == EPIPE || errno == ECONNRESET) return;  // the interpreter has ended, as its run then finds
    if (errno != EINTR) refuse_limit("descriptors in a message");
  }
}

/// Whether a process has ended. It stays there to be waited for.
bool has_ended(pid_t process) {
  siginfo_t info = {};
  const int result = waitid(P_PID, static_cast<id_t>(process), &info, WEXITED | WNOHANG | WNOWAIT);
  return result != 0 || info.si_pid == process;
}

bool ends_within(pid_t process, std::chrono::milliseconds time) {
  constexpr std::chrono::milliseconds kStep{5};
  for (std::chrono::milliseconds waited{0}; waited < time; waited += kStep) {
    if (has_ended(process)) return true;
    std::this_thread::sleep_for(kStep);
  }
  return false;
}

}  // namespace

bool GuestStart::serves(const StartCommand& command) const {
  return keeper_ > 0 && !has_ended(keeper_) && command_.python.interpreter == command.python.interpreter &&
         command_.variables == command.variables && command_.client_folder == command.client_folder;
}

bool GuestStart::provide(const StartCommand& command) {
  if (serves(command)) return false;
  end();
  command_ = command;
  start();
  return true;
}

void GuestStart::start() {
  GuestPipes::Pair failure = GuestPipes::pipe_pair();
  life_ = GuestPipes::socket_pair();
  control_ = GuestPipes::socket_pair();
  output_ = GuestPipes::pipe_pair();
  keeper_ = fork();
  if (keeper_ < 0) refuse_limit("process");
  if (keeper_ == 0) {
    const auto forget = [&] {
      for (Descriptor* each :
           {&life_[1], &control_[0], &control_[1], &output_[0], &output_[1], &failure[0], &failure[1]})
        each->reset();
      for (int standard : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) close(standard);
    };
    become_keeper(
        life_[0].number(),
        [&] { become(command_, control_[1].number(), output_[1].number(), failure[1].number()); }, forget);
  }
  interrupts_.emplace(life_[1].number(), keeper_);
  for (Descriptor* each : {&life_[0], &control_[1], &output_[1], &failure[1]}) each->reset();
  int reason = 0;
  ssize_t told = 0;
  while ((told = read(failure[0].number(), &reason, sizeof(reason))) < 0 && errno == EINTR) continue;
  if (told != sizeof(reason)) return;
  end();
  refuse_by("run_program_not_started", command_.python.interpreter.front(), std::strerror(reason));
}

void GuestStart::begin(const std::vector<int>& descriptors) {
  constexpr std::size_t kMost = 200;  // the system takes 253 in a message
  is_idle_ = false;
  for (std::size_t first = 0; first < descriptors.size(); first += kMost) {
    const std::size_t count = std::min(kMost, descriptors.size() - first);
    const char more = first + count < descriptors.size() ? '+' : '.';
    send_descriptors(control_[0].number(), &descriptors[first], count, more);
  }
}

void GuestStart::end_run(bool is_over) {
  is_idle_ = is_over;
  if (is_over) {
    keeper_sweeps(life_[1].number());
  } else {
    end();
  }
}

/// The interpreter ends by itself when nothing more can come. Otherwise it is asked to, then it is not asked
/// any more.
std::string GuestStart::end() {
  if (keeper_ <= 0) return "no exit code";
  control_[0].reset();
  if (!is_idle_ || !ends_within(keeper_, kGrace)) kill(-keeper_, SIGTERM);
  if (!ends_within(keeper_, kGrace)) life_[1].reset();
  if (!ends_within(keeper_, kGrace)) kill(keeper_, SIGKILL);
  interrupts_.reset();
  int status = 0;
  while (waitpid(keeper_, &status, 0) < 0 && errno == EINTR) continue;
  keeper_ = -1;
  is_idle_ = true;
  return WIFSIGNALED(status) ? fmt::format("signal {}", WTERMSIG(status))
                             : fmt::format("exit code {}", WEXITSTATUS(status));
}

}  // namespace verify
