#include "tests/support/processes.h"

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <memory>
#include <spawn.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#include "sim/base/check.h"
#include "sim/base/deadline.h"
#include "tests/support/loopback.h"

namespace test {

namespace {

using File = std::unique_ptr<std::FILE, decltype(&std::fclose)>;

File temporary_file() {
  std::FILE* file = std::tmpfile();
  SIM_CHECK(file != nullptr);
  return {file, &std::fclose};
}

std::string text_of(std::FILE* file) {
  std::string text;
  std::rewind(file);
  for (int c = std::getc(file); c != EOF; c = std::getc(file)) text.push_back(static_cast<char>(c));
  return text;
}

bool is_of_a_launcher(const std::string& variable) {
  static const std::vector<std::string> beginnings = {"RANK=",   "WORLD_SIZE=",   "LOCAL_", "GROUP_",
                                                      "MASTER_", "OMPI_",         "PMI",    "MV2_",
                                                      "SLURM_",  "TORCHELASTIC_", "NCCL_",  "SHARDPROOF_"};
  return std::any_of(beginnings.begin(), beginnings.end(),
                     [&](const std::string& beginning) { return variable.starts_with(beginning); });
}

std::vector<char*> pointers(std::vector<std::string>& words) {
  std::vector<char*> all;
  for (std::string& word : words) all.push_back(word.data());
  all.push_back(nullptr);
  return all;
}

class Process {
 public:
  explicit Process(const ProcessWords& words) : out_(temporary_file()), err_(temporary_file()) {
    std::vector<std::string> arguments = words.arguments;
    std::vector<std::string> environment;
    for (char** variable = environ; *variable != nullptr; ++variable) {
      if (!is_of_a_launcher(*variable)) environment.emplace_back(*variable);
    }
    environment.insert(environment.end(), words.environment.begin(), words.environment.end());
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, fileno(out_.get()), STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions, fileno(err_.get()), STDERR_FILENO);
    const int error = posix_spawn(&pid_, arguments.front().c_str(), &actions, nullptr,
                                  pointers(arguments).data(), pointers(environment).data());
    posix_spawn_file_actions_destroy(&actions);
    if (error != 0) end(127);
  }

  bool has_ended() {
    int status = 0;
    if (!has_ended_ && waitpid(pid_, &status, WNOHANG) == pid_)
      end(WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
    return has_ended_;
  }

  void kill(int exit_code) {
    if (has_ended()) return;
    ::kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    end(exit_code);
  }

  EndedProcess ended() const { return {exit_code_, text_of(out_.get()), text_of(err_.get())}; }

 private:
  void end(int exit_code) {
    has_ended_ = true;
    exit_code_ = exit_code;
  }

  File out_;
  File err_;
  pid_t pid_ = -1;
  bool has_ended_ = false;
  int exit_code_ = 0;
};

}  // namespace

std::vector<EndedProcess> run_processes(const std::vector<ProcessWords>& all, std::chrono::seconds patience,
                                        std::optional<std::size_t> hung) {
  constexpr std::chrono::milliseconds kNap{2};
  constexpr int kOutOfTime = 124;
  std::vector<Process> processes;
  for (const ProcessWords& words : all) processes.emplace_back(words);
  const sim::Deadline deadline = sim::Deadline::after(patience);
  const auto somebody_runs = [&] {
    bool runs = false;
    for (std::size_t i = 0; i < processes.size(); ++i) runs |= !processes[i].has_ended() && i != hung;
    return runs;
  };
  while (somebody_runs() && !deadline.has_passed()) std::this_thread::sleep_for(kNap);
  std::vector<EndedProcess> ended;
  for (std::size_t i = 0; i < processes.size(); ++i) {
    processes[i].kill(i == hung ? 128 + SIGKILL : kOutOfTime);
    ended.push_back(processes[i].ended());
  }
  return ended;
}

int free_port() {
  constexpr int kFirst = 20'000, kPorts = 9'000;
  static std::atomic<int> next = getpid() * 16;
  for (;;) {
    const int port = kFirst + next++ % kPorts;
    if (listen_at(port).is_open()) return port;
  }
}

}  // namespace test
