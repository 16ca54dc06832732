#include "verify/run/guest_pipes.h"

#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "verify/output/refusal_table.h"

namespace verify {

namespace {

GuestPipes::Pair pair_of(const char* what, int result, const int (&numbers)[2]) {
  if (result != 0) refuse_limit(what);
  return {Descriptor(numbers[0]), Descriptor(numbers[1])};
}

/// A longer line of a rank is printed in pieces.
constexpr std::size_t kLongestLine = std::size_t{1} << 20;

/// How long the pipes of ranks are silent, in milliseconds, when no more is to come.
constexpr int kSilence = 200;

void inherit(int descriptor) { fcntl(descriptor, F_SETFD, 0); }

/// Reads what is there, and passes whole lines on. Returns false at the end.
template <typename Line>
bool take(const Descriptor& from, std::string& begun, const Line& line) {
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

}  // namespace

void refuse_limit(const char* what) { refuse_by("guest_limit", "--ranks", what, std::strerror(errno)); }

GuestPipes::Pair GuestPipes::socket_pair() {
  int numbers[2];
  const int result = socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, numbers);
  return pair_of("sockets", result, numbers);
}

GuestPipes::Pair GuestPipes::pipe_pair() {
  int numbers[2];
  const int result = pipe2(numbers, O_CLOEXEC);
  return pair_of("pipes", result, numbers);
}

Descriptor GuestPipes::memory_file(const char* name) {
  Descriptor file(memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (file.number() < 0) refuse_limit("shared memory");
  return file;
}

void GuestPipes::let_inherit() const {
  inherit(status[1].number());
  inherit(store.number());
  for (const OfRank& rank : ranks)
    for (const int descriptor :
         {rank.socket[1].number(), rank.segment.number(), rank.output[1].number(), rank.errors[1].number()})
      inherit(descriptor);
}

void GuestPipes::close_theirs() {
  status[1].reset();
  starter[1].reset();
  for (OfRank& rank : ranks) {
    rank.socket[1].reset();
    rank.output[1].reset();
    rank.errors[1].reset();
  }
}

void GuestPipes::close_all_but_status() {
  status[0].reset();
  starter[0].reset();
  starter[1].reset();
  store.reset();
  ranks.clear();
}

/// A line of `status` is "begun", "starter CODE" or "RANK CODE"; a code may be minus a signal.
void GuestPipes::take_status(const std::string& line) {
  const std::size_t space = line.find(' ');
  if (line == "begun") return decide(true);
  if (space == std::string::npos) return;
  if (line.starts_with("starter ")) {
    {
      const std::lock_guard lock(mutex_);
      starter_ended_ = line.substr(space + 1);
    }
    return decide(false);
  }
  const auto rank = static_cast<std::size_t>(std::atoi(line.c_str()));
  if (rank < ranks.size()) ranks[rank].ended = line.substr(space + 1);
}

void GuestPipes::take_of_starter(std::string line) {
  {
    const std::lock_guard lock(mutex_);
    if (!line.empty()) starter_written_ = line;
  }
  print_({-1, true, std::move(line)});
}

void GuestPipes::decide(bool has_begun) {
  const std::lock_guard lock(mutex_);
  if (!has_begun_) has_begun_ = has_begun;
  decided_.notify_all();
}

std::vector<GuestPipes::Source> GuestPipes::sources() {
  std::vector<Source> all = {
      {&status[0], &status_begun_, [this](const std::string& text) { take_status(text); }},
      {&starter[0], &starter_begun_, [this](std::string text) { take_of_starter(std::move(text)); }}};
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    const auto printer = [this, r](bool is_error) {
      return [this, r, is_error](std::string text) {
        print_({static_cast<int>(r), is_error, std::move(text)});
      };
    };
    all.push_back({&ranks[r].output[0], &ranks[r].output_begun, printer(false)});
    all.push_back({&ranks[r].errors[0], &ranks[r].errors_begun, printer(true)});
  }
  return all;
}

void GuestPipes::read_all() {
  std::vector<Source> open = sources();
  while (!open.empty()) {
    std::vector<pollfd> waiting;
    for (const Source& source : open) waiting.push_back({.fd = source.from->number(), .events = POLLIN});
    const int ready = poll(waiting.data(), waiting.size(), kSilence);
    if (ready == 0 && is_over_) break;
    if (ready <= 0) continue;
    for (std::size_t i = open.size(); i-- > 0;) {
      if (waiting[i].revents == 0 || take(*open[i].from, *open[i].begun, open[i].line)) continue;
      if (open[i].from == &status[0]) decide(false);  // nobody is there who could begin
      open.erase(open.begin() + static_cast<std::ptrdiff_t>(i));
    }
  }
}

bool GuestPipes::has_begun() {
  std::unique_lock lock(mutex_);
  decided_.wait(lock, [this] { return has_begun_.has_value(); });
  return *has_begun_;
}

std::string GuestPipes::end_of_starter() {
  const std::lock_guard lock(mutex_);
  const std::string how = starter_ended_.starts_with('-') ? "signal " + starter_ended_.substr(1)
                          : starter_ended_.empty()        ? "no exit code"
                                                          : "exit code " + starter_ended_;
  return starter_written_.empty() ? how + " and no word" : fmt::format("{}: {}", how, starter_written_);
}

}  // namespace verify
