#include "verify/run/guest_processes.h"

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>

#include "verify/output/refusal_table.h"

namespace verify {

namespace {

/// What start.py reads.
std::string settings_of(const GuestCommand& command, const GuestPipes& pipes) {
  nlohmann::json all = {{"sockets", nlohmann::json::array()},
                        {"segments", nlohmann::json::array()},
                        {"outputs", nlohmann::json::array()},
                        {"status", pipes.status[1].number()},
                        {"store", fmt::format("/proc/self/fd/{}", pipes.store.number())},
                        {"ranks_of_node", command.ranks_of_node},
                        {"gives_local_rank", command.gives_local_rank},
                        {"no_gpu", command.keeps_off_gpu},
                        {"publishes", command.publishes != Publishes::nothing},
                        {"draws_weights", command.publishes == Publishes::with_drawn_weights},
                        {"exact", command.computes_in_f64}};
  for (const GuestPipes::OfRank& rank : pipes.ranks) {
    all["sockets"].push_back(rank.socket[1].number());
    all["segments"].push_back(rank.segment.number());
    all["outputs"].push_back({rank.output[1].number(), rank.errors[1].number()});
  }
  return all.dump();
}

/// Returns the words with the client in front of the program: "python -u FOLDER/begin.py train.py". The
/// option -u also counts where Python is told to ignore its variables.
std::vector<std::string> with_client(const PythonCommand& python, const std::string& client) {
  std::vector<std::string> all = python.interpreter;
  all.insert(all.end(), {"-u", client + "/begin.py"});
  all.insert(all.end(), python.program.begin(), python.program.end());
  return all;
}

[[noreturn]] void become(const GuestCommand& command, const GuestPipes& pipes, const Descriptor& failure) {
  pipes.let_inherit();
  dup2(pipes.starter[1].number(), STDOUT_FILENO);
  dup2(pipes.starter[1].number(), STDERR_FILENO);
  const int nothing = open("/dev/null", O_RDONLY);
  if (nothing >= 0) dup2(nothing, STDIN_FILENO);
  setenv("SHARDPROOF_GUESTS", settings_of(command, pipes).c_str(), 1);
  for (const auto& [name, value] :
       {std::pair("OMP_NUM_THREADS", "1"), std::pair("TORCHDYNAMO_DISABLE", "1"),
        std::pair("CUDA_DEVICE_MAX_CONNECTIONS", "1"), std::pair("MASTER_ADDR", "127.0.0.1")})
    setenv(name, value, 0);
  for (const auto& [name, value] : command.variables) setenv(name.c_str(), value.c_str(), 1);
  const std::vector<std::string> words = with_client(command.python, command.client_folder);
  std::vector<char*> arguments;
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  execvp(arguments.front(), arguments.data());
  const int reason = errno;
  const ssize_t told = write(failure.number(), &reason, sizeof(reason));
  _exit(told == sizeof(reason) ? 127 : 126);
}

constexpr std::chrono::milliseconds kGrace{5000};

/// Whether a process ends within a time. It stays there to be waited for.
bool ends_within(pid_t process, std::chrono::milliseconds time) {
  constexpr std::chrono::milliseconds kStep{5};
  for (std::chrono::milliseconds waited{0}; waited < time; waited += kStep) {
    siginfo_t info = {};
    if (waitid(P_PID, static_cast<id_t>(process), &info, WEXITED | WNOHANG | WNOWAIT) != 0) return true;
    if (info.si_pid == process) return true;
    std::this_thread::sleep_for(kStep);
  }
  return false;
}

}  // namespace

GuestProcesses::GuestProcesses(const GuestCommand& command, GuestPipes::Print print)
    : pipes_(command.ranks, std::move(print)) {
  GuestPipes::Pair failure = GuestPipes::pipe_pair();
  keeper_ = fork();
  if (keeper_ < 0) refuse_limit("process");
  if (keeper_ == 0) {
    life_[1].reset();
    const auto forget = [&] {
      failure[1].reset();
      for (int standard : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) close(standard);
      pipes_.close_all_but_status();
    };
    become_keeper(
        {life_[0].number(), pipes_.status[1].number()}, [&] { become(command, pipes_, failure[1]); }, forget);
  }
  interrupts_.emplace(life_[1].number(), keeper_);
  life_[0].reset();
  failure[1].reset();
  pipes_.close_theirs();
  reader_ = std::thread([this] { pipes_.read_all(); });
  require_begun(command.python.interpreter.front(), failure[0]);
}

/// Refuses an interpreter that cannot be started, or that ends before the ranks run.
void GuestProcesses::require_begun(const std::string& interpreter, const Descriptor& failure) {
  if (pipes_.has_begun()) return;
  finish();
  int reason = 0;
  if (read(failure.number(), &reason, sizeof(reason)) == sizeof(reason))
    refuse_by("run_program_not_started", interpreter, std::strerror(reason));
  refuse_by("run_program_not_started/ended", interpreter, pipes_.end_of_starter());
}

GuestProcesses::~GuestProcesses() { finish(); }

std::vector<sim::GuestEnd> GuestProcesses::ends() const {
  std::vector<sim::GuestEnd> all;
  for (const GuestPipes::OfRank& rank : pipes_.ranks)
    all.push_back({rank.socket[0].number(), rank.segment.number()});
  return all;
}

/// Ends the keeper, which ends when the program does: the program is asked to, then it is not asked any more.
void GuestProcesses::end_keeper() {
  if (keeper_ <= 0) return;
  if (!ends_within(keeper_, kGrace)) kill(-keeper_, SIGTERM);
  if (!ends_within(keeper_, kGrace)) life_[1].reset();
  if (!ends_within(keeper_, kGrace)) kill(keeper_, SIGKILL);
  interrupts_.reset();
  while (waitpid(keeper_, nullptr, 0) < 0 && errno == EINTR) continue;
  keeper_ = -1;
}

std::vector<std::string> GuestProcesses::finish() {
  for (GuestPipes::OfRank& rank : pipes_.ranks) rank.socket[0].reset();
  end_keeper();
  pipes_.tell_end();
  if (reader_.joinable()) reader_.join();
  std::vector<std::string> ended;
  for (const GuestPipes::OfRank& rank : pipes_.ranks) ended.push_back(rank.ended);
  return ended;
}

}  // namespace verify
