#include "verify/run/guest_processes.h"

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <poll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>

#include "verify/output/refusal_table.h"
#include "verify/run/descriptor.h"

namespace verify {

namespace {

[[noreturn]] void refuse_limit(const char* what) {
  refuse_by("guest_limit", "--ranks", what, std::strerror(errno));
}

using Pair = std::array<Descriptor, 2>;

Pair pair_of(const char* what, int result, const int (&numbers)[2]) {
  if (result != 0) refuse_limit(what);
  return {Descriptor(numbers[0]), Descriptor(numbers[1])};
}
Pair socket_pair() {
  int numbers[2];
  const int result = socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, numbers);
  return pair_of("sockets", result, numbers);
}
Pair pipe_pair() {
  int numbers[2];
  const int result = pipe2(numbers, O_CLOEXEC);
  return pair_of("pipes", result, numbers);
}
Descriptor memory_file(const char* name) {
  Descriptor file(memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (file.number() < 0) refuse_limit("shared memory");
  return file;
}

/// A longer line of a rank is printed in pieces.
constexpr std::size_t kLongestLine = std::size_t{1} << 20;

/// How long the pipes of ranks are silent, in milliseconds, when no more is to come.
constexpr int kSilence = 200;

void inherit(int descriptor) { fcntl(descriptor, F_SETFD, 0); }

}  // namespace

/// What this process and those of the ranks have in common. The second of each pair is the ranks'.
struct GuestProcesses::Pipes {
  struct OfRank {
    Pair socket = socket_pair();
    Descriptor segment = memory_file("shardproof-rank");
    Pair output = pipe_pair(), errors = pipe_pair();
    std::string output_begun, errors_begun;  // what has come of the next line
    std::string ended;                       // how its process has ended
  };
  std::vector<OfRank> ranks;
  Pair status = pipe_pair();
  std::string status_begun;
  Descriptor store = memory_file("shardproof-store");
  Print print;
  std::atomic<bool> is_over = false;  // no rank runs any more; what still holds a pipe is not theirs

  std::string settings(const GuestCommand& command) const {
    nlohmann::json all = {{"sockets", nlohmann::json::array()},
                          {"segments", nlohmann::json::array()},
                          {"outputs", nlohmann::json::array()},
                          {"status", status[1].number()},
                          {"store", fmt::format("/proc/self/fd/{}", store.number())},
                          {"ranks_of_node", command.ranks_of_node},
                          {"gives_local_rank", command.gives_local_rank},
                          {"no_gpu", command.keeps_off_gpu}};
    for (const OfRank& rank : ranks) {
      all["sockets"].push_back(rank.socket[1].number());
      all["segments"].push_back(rank.segment.number());
      all["outputs"].push_back({rank.output[1].number(), rank.errors[1].number()});
    }
    return all.dump();
  }
  void let_inherit() const {
    inherit(status[1].number());
    inherit(store.number());
    for (const OfRank& rank : ranks)
      for (const int descriptor :
           {rank.socket[1].number(), rank.segment.number(), rank.output[1].number(), rank.errors[1].number()})
        inherit(descriptor);
  }
  void close_theirs() {
    status[1].reset();
    for (OfRank& rank : ranks) {
      rank.socket[1].reset();
      rank.output[1].reset();
      rank.errors[1].reset();
    }
  }

  /// Reads what is there, and passes whole lines on. Returns false at the end.
  template <typename Line>
  static bool take(const Descriptor& from, std::string& begun, const Line& line) {
    std::array<char, 1 << 14> chunk;
    const ssize_t got = read(from.number(), chunk.data(), chunk.size());
    if (got < 0) return errno == EINTR || errno == EAGAIN;
    const std::size_t searched = begun.size();
    begun.append(chunk.data(), static_cast<std::size_t>(got));
    for (std::size_t end = begun.find('\n', searched); end != std::string::npos; end = begun.find('\n')) {
      line(begun.substr(0, end));
      begun.erase(0, end + 1);
    }
    if ((got == 0 && !begun.empty()) || begun.size() > kLongestLine) line(std::exchange(begun, {}));
    return got > 0;
  }
  void take_status(const std::string& line) {
    const std::size_t space = line.find(' ');
    const auto rank = static_cast<std::size_t>(std::stoi(line));
    if (rank < ranks.size() && space != std::string::npos) ranks[rank].ended = line.substr(space + 1);
  }

  /// Passes on all that the ranks write, until all of their pipes are closed, or all is over and silent.
  void read_all() {
    struct Source {
      const Descriptor* from;
      std::string* begun;
      std::function<void(std::string)> line;
    };
    std::vector<Source> sources = {
        {&status[0], &status_begun, [this](const std::string& text) { take_status(text); }}};
    for (std::size_t r = 0; r < ranks.size(); ++r) {
      const auto printer = [this, r](bool is_error) {
        return [this, r, is_error](std::string text) {
          print({static_cast<int>(r), is_error, std::move(text)});
        };
      };
      sources.push_back({&ranks[r].output[0], &ranks[r].output_begun, printer(false)});
      sources.push_back({&ranks[r].errors[0], &ranks[r].errors_begun, printer(true)});
    }
    while (!sources.empty()) {
      std::vector<pollfd> waiting;
      for (const Source& source : sources) waiting.push_back({.fd = source.from->number(), .events = POLLIN});
      const int ready = poll(waiting.data(), waiting.size(), kSilence);
      if (ready == 0 && is_over) return;
      if (ready <= 0) continue;
      for (std::size_t i = sources.size(); i-- > 0;) {
        if (waiting[i].revents == 0) continue;
        if (!take(*sources[i].from, *sources[i].begun, sources[i].line))
          sources.erase(sources.begin() + static_cast<std::ptrdiff_t>(i));
      }
    }
  }
};

namespace {

/// Returns the words with the client in front of the program: "python -u FOLDER/begin.py train.py". The
/// option -u also counts where Python is told to ignore its variables.
std::vector<std::string> with_client(const PythonCommand& python, const std::string& client) {
  std::vector<std::string> all = python.interpreter;
  all.insert(all.end(), {"-u", client + "/begin.py"});
  all.insert(all.end(), python.program.begin(), python.program.end());
  return all;
}

[[noreturn]] void become(const GuestCommand& command, const std::string& settings,
                         const Descriptor& failure) {
  setpgid(0, 0);
  dup2(STDERR_FILENO, STDOUT_FILENO);  // the result goes to standard output
  const int nothing = open("/dev/null", O_RDONLY);
  if (nothing >= 0) dup2(nothing, STDIN_FILENO);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  setenv("SHARDPROOF_GUESTS", settings.c_str(), 1);
  for (const auto& [name, value] : {std::pair("OMP_NUM_THREADS", "1"), std::pair("TORCHDYNAMO_DISABLE", "1"),
                                    std::pair("CUDA_DEVICE_MAX_CONNECTIONS", "1"),
                                    std::pair("MASTER_ADDR", "127.0.0.1"), std::pair("MASTER_PORT", "29500")})
    setenv(name, value, 0);
  const std::vector<std::string> words = with_client(command.python, command.client_folder);
  std::vector<char*> arguments;
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  execvp(arguments.front(), arguments.data());
  const int reason = errno;
  const ssize_t told = write(failure.number(), &reason, sizeof(reason));
  _exit(told == sizeof(reason) ? 127 : 126);
}

}  // namespace

namespace {

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

GuestProcesses::GuestProcesses(const GuestCommand& command, Print print) : pipes_(std::make_unique<Pipes>()) {
  pipes_->print = std::move(print);
  pipes_->ranks = std::vector<Pipes::OfRank>(static_cast<std::size_t>(command.ranks));
  const std::string settings = pipes_->settings(command);
  Pair failure = pipe_pair();
  starter_ = fork();
  if (starter_ < 0) refuse_limit("process");
  if (starter_ == 0) {
    pipes_->let_inherit();
    become(command, settings, failure[1]);
  }
  setpgid(starter_, starter_);
  failure[1].reset();
  int reason = 0;
  if (read(failure[0].number(), &reason, sizeof(reason)) == sizeof(reason)) {
    waitpid(starter_, nullptr, 0);
    refuse_by("run_program_not_started", command.python.interpreter.front(), std::strerror(reason));
  }
  pipes_->close_theirs();
  reader_ = std::thread([this] { pipes_->read_all(); });
}

GuestProcesses::~GuestProcesses() { finish(); }

std::vector<sim::GuestEnd> GuestProcesses::ends() const {
  std::vector<sim::GuestEnd> all;
  for (const Pipes::OfRank& rank : pipes_->ranks)
    all.push_back({rank.socket[0].number(), rank.segment.number()});
  return all;
}

std::vector<std::string> GuestProcesses::finish() {
  for (Pipes::OfRank& rank : pipes_->ranks) rank.socket[0].reset();
  if (starter_ > 0) {
    if (!ends_within(starter_, kGrace)) kill(-starter_, SIGTERM);
    if (!ends_within(starter_, kGrace)) kill(-starter_, SIGKILL);
    while (waitpid(starter_, nullptr, 0) < 0 && errno == EINTR) continue;
    kill(-starter_, SIGKILL);
    starter_ = -1;
  }
  pipes_->is_over = true;
  if (reader_.joinable()) reader_.join();
  std::vector<std::string> ended;
  for (const Pipes::OfRank& rank : pipes_->ranks) ended.push_back(rank.ended);
  return ended;
}

}  // namespace verify
