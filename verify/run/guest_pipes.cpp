#include "verify/run/guest_pipes.h"

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
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

std::string text_of(const std::string& run, const GuestLine& line) {
  return (run.empty() ? "" : run + "| ") + (line.rank < 0 ? "" : std::to_string(line.rank) + "| ") +
         line.text;
}

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

std::vector<int> GuestPipes::theirs() const {
  std::vector<int> all = {status[1].number(), store.number()};
  for (const OfRank& rank : ranks)
    all.insert(all.end(), {rank.socket[1].number(), rank.segment.number(), rank.output[1].number(),
                           rank.errors[1].number()});
  return all;
}

void GuestPipes::close_theirs() {
  status[1].reset();
  for (OfRank& rank : ranks) {
    rank.socket[1].reset();
    rank.output[1].reset();
    rank.errors[1].reset();
  }
}

/// A line of `status` is "begun" or "RANK CODE"; a code may be minus a signal.
void GuestPipes::take_status(const std::string& line) {
  if (line == "begun") {
    const std::lock_guard lock(mutex_);
    has_begun_ = true;
    changed_.notify_all();
    return;
  }
  const std::size_t space = line.find(' ');
  const auto rank = static_cast<std::size_t>(std::atoi(line.c_str()));
  if (space != std::string::npos && rank < ranks.size()) ranks[rank].ended = line.substr(space + 1);
}

void GuestPipes::take_of_starter(std::string line) {
  {
    const std::lock_guard lock(mutex_);
    if (!line.empty()) starter_written_ = line;
  }
  print_({-1, true, std::move(line)});
}

/// The status ends when all ranks have, or nobody is there who could begin.
void GuestPipes::take_end(const Source& source) {
  if (source.from != &status[0]) return;
  const std::lock_guard lock(mutex_);
  is_over_ = true;
  changed_.notify_all();
}

std::vector<GuestPipes::Source> GuestPipes::sources() {
  std::vector<Source> all = {
      {&status[0], &status_begun_, [this](const std::string& text) { take_status(text); }},
      {&of_starter_, &starter_begun_, [this](std::string text) { take_of_starter(std::move(text)); }}};
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
  const auto is_of_ranks = [this](const Source& source) { return source.from != &of_starter_; };
  for (bool has_more = true; has_more;) {
    std::vector<pollfd> waiting;
    for (const Source& source : open) waiting.push_back({.fd = source.from->number(), .events = POLLIN});
    const bool waits = std::ranges::any_of(open, is_of_ranks);
    const int ready = poll(waiting.data(), waiting.size(), waits ? kSilence : 0);
    has_more = ready > 0 || (waits && !(ready == 0 && is_told_end_));
    for (std::size_t i = ready > 0 ? open.size() : 0; i-- > 0;) {
      if (waiting[i].revents == 0 || take(*open[i].from, *open[i].begun, open[i].line)) continue;
      take_end(open[i]);
      open.erase(open.begin() + static_cast<std::ptrdiff_t>(i));
    }
  }
}

bool GuestPipes::has_begun() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return has_begun_ || is_over_; });
  return has_begun_;
}

bool GuestPipes::is_over_within(std::chrono::milliseconds time) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, time, [this] { return is_over_; });
}

std::string GuestPipes::last_of_starter() {
  const std::lock_guard lock(mutex_);
  return starter_written_;
}

}  // namespace verify
