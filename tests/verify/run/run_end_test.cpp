// How a run ends that does not go well: an interpreter that does not come to the ranks, and interrupts.

#include <algorithm>
#include <chrono>
#include <csignal>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#include "tests/support/temporary_folder.h"
#include "tests/verify/run/guest_test.h"

namespace {

using test::has;

class RunNotBegun : public test::WithPython {};

/// What is said of a program that a folder's sitecustomize.py keeps from beginning.
std::string refusal_with(const std::string& sitecustomize) {
  const test::TemporaryFolder temporary("-site");
  const std::filesystem::path folder = temporary.path();
  std::filesystem::create_directory(folder);
  std::ofstream(folder / "sitecustomize.py") << sitecustomize;
  setenv("PYTHONPATH", folder.c_str(), 1);
  const test::RunResult run = test::run("run --ranks 2 --format json -- python3 -c pass");
  unsetenv("PYTHONPATH");
  EXPECT_EQ(run.exit_code, 2) << run.out << run.err;
  const auto refused = nlohmann::json::parse(run.out)["error"];
  EXPECT_EQ(refused["code"], "run_program_not_started") << run.out;
  return refused["numbers"].get<std::string>() + "\n" + run.err;
}

TEST_F(RunNotBegun, AnInterpreterThatEndsFirstIsRefusedWithWhatItSays) {
  const std::string ended =
      refusal_with("import os, sys\nprint('no license', file=sys.stderr)\nos._exit(5)\n");
  EXPECT_TRUE(has(ended, "python3 has ended before the ranks ran, with exit code 5: no license\n")) << ended;
  EXPECT_TRUE(has(ended, "\nno license\n")) << ended;
  const std::string killed = refusal_with("import os\nos.kill(os.getpid(), 9)\n");
  EXPECT_TRUE(has(killed, "with signal 9")) << killed;
}

TEST_F(RunNotBegun, AnInterpreterWithoutItsLibraryIsRefused) {
  setenv("PYTHONHOME", "/no/such/folder", 1);
  const test::RunResult run = test::run("run --ranks 2 -- python3 -c pass");
  unsetenv("PYTHONHOME");
  EXPECT_EQ(run.exit_code, 2) << run.out << run.err;
  EXPECT_TRUE(has(run.err, "refused [run_program_not_started]")) << run.err;
}

TEST(RunOfOldPython, IsRefused) {
  const test::TemporaryFolder temporary("-old-python");
  const std::filesystem::path folder = temporary.path();
  std::filesystem::create_directory(folder);
  std::ofstream(folder / "python2") << "#!/bin/sh\necho \"SyntaxError: invalid syntax\" >&2\nexit 1\n";
  std::filesystem::permissions(folder / "python2", std::filesystem::perms::owner_all);
  const test::RunResult run = test::run("run --ranks 2 -- " + (folder / "python2").string() + " -c pass");
  EXPECT_TRUE(has(run.err, "with exit code 1: SyntaxError: invalid syntax")) << run.err;
}

std::string word_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

/// Returns the words of the processes that have a mark among their variables.
std::vector<std::string> processes_of(const std::string& mark) {
  std::vector<std::string> found;
  std::error_code error;
  for (const auto& process : std::filesystem::directory_iterator("/proc", error))
    if (has(word_of(process.path() / "environ"), mark)) found.push_back(word_of(process.path() / "cmdline"));
  return found;
}

template <typename Condition>
bool comes_true(const Condition& condition) {
  for (int step = 0; step < 600; ++step) {
    if (condition()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  return false;
}

/// A run of the program in the build folder whose ranks have children, one in a session of its own.
class Interrupted : public test::WithPython {
 protected:
  static constexpr const char* kProgram = R"(
import subprocess, time
subprocess.Popen(["sleep", "1000"])
subprocess.Popen(["sleep", "1000"], start_new_session=True)
if os.fork() == 0:
    if os.fork() == 0:
        time.sleep(1000)
    os._exit(0)
call('barrier', 7)
print('runs', flush=True)
time.sleep(1000)
)";

  /// Returns the status of the program after a signal, when no process of it is left.
  int status_after(int signal) {
    const test::TemporaryFile file("train.py", test::kGuestBegin + std::string(kProgram));
    const test::TemporaryFile output("output", "");
    const std::string mark =
        "SHARDPROOF_TEST_MARK=" + std::to_string(getpid()) + "." + std::to_string(signal);
    const std::string shardproof = std::string(SHARDPROOF_BINARY_DIR) + "/shardproof";
    const pid_t program = fork();
    if (program == 0) {
      putenv(const_cast<char*>(mark.c_str()));
      const int to = open(output.path().c_str(), O_WRONLY | O_TRUNC);
      dup2(to, STDOUT_FILENO);
      dup2(to, STDERR_FILENO);
      execl(shardproof.c_str(), "shardproof", "run", "--ranks", "2", "--", "python3", file.path().c_str(),
            nullptr);
      _exit(127);
    }
    EXPECT_TRUE(comes_true([&] {
      const std::string text = word_of(output.path());
      return has(text, "0| runs") && has(text, "1| runs");
    })) << word_of(output.path());
    // The program, its keeper, the starter, and each rank with three others.
    EXPECT_TRUE(comes_true([&] { return processes_of(mark).size() == 11; })) << processes_of(mark).size();
    kill(program, signal);
    int status = 0;
    waitpid(program, &status, 0);
    said_ = word_of(output.path());
    EXPECT_TRUE(comes_true([&] { return processes_of(mark).empty(); })) << processes_of(mark).front();
    return status;
  }

  std::string said_;
};

TEST_F(Interrupted, ByTheKeyboardItEndsAllAndSaysSo) {
  const int status = status_after(SIGINT);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 130) << status;
  const std::string program = test::kGuestBegin + std::string(kProgram);
  const std::string last_line = std::to_string(std::ranges::count(program, '\n'));
  for (const std::string& part : {std::string("0|   File \""), std::string("1|   File \""),
                                  "train.py\", line " + last_line + " in <module>\n"})
    EXPECT_TRUE(has(said_, part)) << said_;
}

TEST_F(Interrupted, ByTheSystemItEndsAllAndSaysSo) {
  const int status = status_after(SIGTERM);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 143) << status;
}

TEST_F(Interrupted, KilledItLeavesNothing) {
  const int status = status_after(SIGKILL);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << status;
}

}  // namespace
