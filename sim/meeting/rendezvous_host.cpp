#include "sim/meeting/rendezvous_host.h"

#include <algorithm>
#include <fmt/format.h>
#include <map>
#include <sys/resource.h>
#include <utility>

#include "sim/base/check.h"
#include "sim/meeting/rank_ranges.h"
#include "sim/meeting/rendezvous.h"

namespace sim {

namespace {

/// Refuses a world for which this process may not open enough files: one for each rank, and some for
/// strangers and for other files of the process.
void require_descriptors(int world_size) {
  constexpr rlim_t kOthers = 32;
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return;
  const rlim_t needed = static_cast<rlim_t>(world_size) + kOthers;
  if (limit.rlim_cur >= needed) return;
  refuse({.code = "rendezvous_files",
          .option = "--world-size",
          .numbers =
              fmt::format("{} ranks, but this process may open only {} files", world_size, limit.rlim_cur),
          .rule = "rank 0 holds a connection to every rank",
          .hint = fmt::format("ulimit -n {} on the node of rank 0", needed)});
}

Socket listener_of(const RendezvousSpec& spec) {
  auto listener = listen_at(spec.master_addr, spec.master_port);
  if (auto* socket = std::get_if<Socket>(&listener)) return std::move(*socket);
  refuse({.code = "rendezvous_listen",
          .option = "--master-addr",
          .numbers = fmt::format("rank 0 at {}: {}", endpoint_text(spec.master_addr, spec.master_port),
                                 std::get<NoSocket>(listener).reason),
          .rule = "rank 0 runs on the node of the master address, and nobody else listens at the port",
          .hint = "give --master-addr the node of rank 0, and --master-port a port that is free there"});
}

Hello hello_of(const RendezvousSpec& spec) {
  return {spec.program_version, spec.rank, spec.world_size, spec.configuration, host_name(), spec.payload};
}

}  // namespace

RendezvousHost::RendezvousHost(const RendezvousSpec& spec, DroppedConnections& dropped)
    : spec_(spec), dropped_(dropped) {
  require_descriptors(spec.world_size);
  listener_ = listener_of(spec);
  // Rank 0's own hello is encoded and decoded as those of the others are, so that unprintable characters and
  // long names are changed in the same way.
  const std::optional<Hello> own = decoded_hello(frame_of(hello_of(spec)));
  CHECK(own);
  own_ = *own;
}

std::vector<Attendee> RendezvousHost::attendees() const {
  std::vector<Attendee> all = {{own_, endpoint_text(spec_.master_addr, port())}};
  for (const Seat& seat : seats_) all.push_back({seat.hello, seat.connection.peer()});
  return all;
}

bool RendezvousHost::is_everyone_here() const {
  int expected = spec_.world_size;
  for (const Seat& seat : seats_) expected = std::max(expected, seat.hello.world_size);
  return static_cast<int>(seats_.size()) + 1 >= expected;
}

Deadline RendezvousHost::earliest() const {
  Deadline earliest = deadline_;
  if (!accept_again_.has_passed()) earliest = std::min(earliest, accept_again_);
  for (const Stranger& stranger : strangers_) earliest = std::min(earliest, stranger.patience);
  return earliest;
}

void RendezvousHost::begin_to_wait() {
  leaves_a_grace_ = false;
  own_deadline_ = deadline_ = Deadline::after(spec_.deadline);
}

void RendezvousHost::heed(std::chrono::milliseconds patience) {
  const Deadline decides = Deadline::after(patience - std::min(spec_.grace, patience / 4));
  if (decides >= deadline_) return;
  deadline_ = decides;
  leaves_a_grace_ = true;
}

/// Returns how long rank 0 waited at most, as messages say it.
std::string RendezvousHost::waited() const {
  if (!leaves_a_grace_) return text_of(spec_.deadline);
  return fmt::format("{}, less {} for the answer", text_of(spec_.deadline),
                     text_of(std::min(spec_.grace, spec_.deadline / 4)));
}

void RendezvousHost::wait() {
  std::vector<pollfd> sockets;
  if (listener_.is_open() && accept_again_.has_passed())
    sockets.push_back({listener_.descriptor(), POLLIN, 0});
  for (const Stranger& stranger : strangers_) sockets.push_back(stranger.connection.interest());
  for (const Seat& seat : seats_) {
    if (seat.connection.is_open()) sockets.push_back(seat.connection.interest());
  }
  poll_until(sockets, earliest());
}

void RendezvousHost::drop_oldest_stranger(const std::string& reason) {
  dropped_.add(strangers_.front().connection.peer(), reason);
  strangers_.pop_front();
}

void RendezvousHost::accept_strangers() {
  constexpr int kAtOnce = 64;  // After this many, the connections that are already open are served.
  constexpr std::chrono::milliseconds kPause{20};
  if (!accept_again_.has_passed()) return;
  for (int i = 0; i < kAtOnce; ++i) {
    auto accepted = accept_from(listener_);
    if (const auto* none = std::get_if<NoAccept>(&accepted)) {
      if (*none == NoAccept::nobody_waits) return;
      if (strangers_.empty()) {
        accept_again_ = Deadline::after(kPause);
        return;
      }
      drop_oldest_stranger("gave way, because no file descriptors were left");
      continue;
    }
    auto& [socket, peer] = std::get<Accepted>(accepted);
    strangers_.push_back({Connection(std::move(socket), peer), Deadline::after(spec_.hello_patience)});
    // A rank sends its hello at once, so it is seldom the oldest stranger; if it is, it will connect again.
    if (strangers_.size() > kMostStrangers) drop_oldest_stranger("gave way to newer connections");
  }
}

void RendezvousHost::hear_hello(Stranger& stranger, const Frame& frame) {
  std::optional<Hello> hello = decoded_hello(frame);
  const std::size_t most_seats = 2 * static_cast<std::size_t>(spec_.world_size) + kMostStrangers;
  if (!hello) {
    dropped_.add(stranger.connection.peer(), "sent a message that is not a hello");
  } else if (seats_.size() >= most_seats) {
    dropped_.add(stranger.connection.peer(), "more than twice as many ranks came as the world has");
  } else {
    heed(hello->patience);
    seats_.push_back({std::move(stranger.connection), std::move(*hello), {}, {}});
  }
}

void RendezvousHost::hear_strangers() {
  for (auto stranger = strangers_.begin(); stranger != strangers_.end();) {
    const Incoming incoming = stranger->connection.receive();
    if (const auto* frame = std::get_if<Frame>(&incoming)) {
      hear_hello(*stranger, *frame);
    } else if (const auto* none = std::get_if<NoFrame>(&incoming)) {
      dropped_.add(stranger->connection.peer(), none->reason);
    } else if (const auto* ended = std::get_if<Ended>(&incoming)) {
      dropped_.add(stranger->connection.peer(),
                   ended->had_begun ? "ended in its hello" : "ended without a hello");
    } else if (stranger->patience.has_passed()) {
      dropped_.add(stranger->connection.peer(), "no hello within " + text_of(spec_.hello_patience));
    } else {
      ++stranger;
      continue;
    }
    stranger = strangers_.erase(stranger);
  }
}

/// Drops the ranks that closed their connection before all were here, which may come again, and those that
/// sent a frame out of turn.
void RendezvousHost::require_seats() {
  for (auto seat = seats_.begin(); seat != seats_.end();) {
    const Incoming incoming = seat->connection.receive();
    if (std::holds_alternative<NeedMore>(incoming)) {
      ++seat;
      continue;
    }
    const char* what = std::holds_alternative<Ended>(incoming) ? "left before all ranks were here"
                                                               : "sent a message out of turn";
    dropped_.add(seat->connection.peer(), fmt::format("rank {} {}", seat->hello.rank, what));
    seat = seats_.erase(seat);
  }
}

/// Sends all queued bytes, and gives up when its own deadline has passed.
void RendezvousHost::deliver() {
  do {
    std::vector<pollfd> sockets;
    for (Seat& seat : seats_) {
      if (!seat.connection.is_open()) continue;
      seat.connection.flush();
      if (seat.connection.has_to_send()) sockets.push_back({seat.connection.interest().fd, POLLOUT, 0});
    }
    if (sockets.empty()) return;
    poll_until(sockets, own_deadline_);
  } while (!own_deadline_.has_passed());
}

void RendezvousHost::answer(const std::optional<Refusal>& refusal) {
  std::map<std::string, int> ranks_of_host = {{own_.host, 1}};
  for (const Seat& seat : seats_) ++ranks_of_host[seat.hello.host];
  std::map<std::string, int> next_of_host = {{own_.host, 1}};
  for (Seat& seat : seats_) {
    const int local_rank = next_of_host[seat.hello.host]++;
    seat.connection.send(
        frame_of(Answer{refusal, local_rank, ranks_of_host[seat.hello.host], spec_.payload}));
  }
  deliver();
}

Meeting RendezvousHost::meet() {
  begin_to_wait();
  while (!is_everyone_here() && !deadline_.has_passed()) {
    wait();
    accept_strangers();
    hear_strangers();
    require_seats();
  }
  seats_.sort([](const Seat& a, const Seat& b) { return a.hello.rank < b.hello.rank; });
  Answer verdict;
  verdict.refusal = roll_call(attendees(), spec_.world_size, waited(), dropped_);
  strangers_.clear();
  answer(verdict.refusal);
  if (verdict.refusal) {
    seats_.clear();
    listener_.close();
    // Rank 0 throws the same words that it sent to the others.
    refuse(*decoded_answer(frame_of(verdict))->refusal);
  }
  listener_.close();
  Meeting meeting{spec_.payload, {spec_.payload}, 0, 1};
  for (const Seat& seat : seats_) {
    meeting.payloads.push_back(seat.hello.payload);
    meeting.local_world_size += seat.hello.host == own_.host ? 1 : 0;
  }
  return meeting;
}

void RendezvousHost::hear_report(Seat& seat) {
  const Incoming incoming = seat.connection.receive();
  if (std::holds_alternative<NeedMore>(incoming)) return;
  if (const auto* frame = std::get_if<Frame>(&incoming)) seat.report = decoded_report(*frame);
  if (seat.report) return heed(seat.report->patience);
  seat.lost = std::holds_alternative<Ended>(incoming) ? "died" : "sent a message that is not a report";
  seat.connection.close();
}

Ending RendezvousHost::ending(const Report& own) const {
  Ending ending{own.is_equal, {}};
  std::map<std::string, std::vector<int>> lost;
  for (const Seat& seat : seats_) {
    if (seat.report) {
      ending.is_equal = ending.is_equal && seat.report->is_equal;
    } else {
      const std::string silent = fmt::format("did not report within {}", waited());
      lost[seat.lost.empty() ? silent : seat.lost].push_back(seat.hello.rank);
    }
  }
  if (lost.empty()) return ending;
  std::string numbers;
  for (const auto& [how, ranks] : lost) {
    numbers +=
        fmt::format("{}{} of {} {}", numbers.empty() ? "" : ", ", named_ranks(ranks), spec_.world_size, how);
  }
  ending.failure = Refusal{"rendezvous_lost", "--world-size", numbers, "every rank reports at the end",
                           "look at what those ranks wrote last"};
  ending.is_equal = false;
  return ending;
}

Conclusion RendezvousHost::finish(const Report& report) {
  begin_to_wait();
  while (true) {
    bool is_awaited = false;
    for (Seat& seat : seats_) {
      if (!seat.report && seat.lost.empty()) hear_report(seat);
      is_awaited = is_awaited || (!seat.report && seat.lost.empty());
    }
    if (!is_awaited || deadline_.has_passed()) break;
    std::vector<pollfd> sockets;
    for (const Seat& seat : seats_) {
      if (!seat.report && seat.lost.empty()) sockets.push_back(seat.connection.interest());
    }
    poll_until(sockets, deadline_);
  }
  const Ending end = ending(report);
  for (Seat& seat : seats_) {
    if (seat.connection.is_open()) seat.connection.send(frame_of(end));
  }
  deliver();
  // Rank 0 uses the same words that it sent to the others.
  const std::optional<Ending> told = decoded_ending(frame_of(end));
  CHECK(told);
  Conclusion conclusion = conclusion_of(*told);
  conclusion.reports = {report};
  for (const Seat& seat : seats_) conclusion.reports.push_back(seat.report.value_or(Report{false, ""}));
  seats_.clear();
  return conclusion;
}

}  // namespace sim
