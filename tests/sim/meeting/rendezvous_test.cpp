// Proves how worlds meet over the loopback interface: complete worlds, every way in which a world can be
// incomplete, strangers that connect, and ranks that die.

#include "sim/meeting/rendezvous.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <csignal>
#include <future>
#include <gtest/gtest.h>
#include <memory>
#include <mutex>
#include <numeric>
#include <random>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include "sim/base/error.h"
#include "tests/support/contains.h"
#include "tests/support/loopback.h"
#include "tests/support/processes.h"
#include "tests/support/refusal_code.h"

namespace {

using namespace sim;
using namespace std::chrono_literals;
using test::contains;
using test::Socket;

Bytes bytes_of(const std::string& text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

RendezvousSpec spec_of(int rank, int world, int port) {
  return {.rank = rank,
          .world_size = world,
          .master_port = port,
          .program_version = "1.0",
          .configuration = 7,
          .payload = bytes_of("payload of rank " + std::to_string(rank)),
          .deadline = 20s};  // nobody waits for it unless a rank is missing
}

RendezvousSpec spec_of(int rank, int world, int port, std::chrono::milliseconds deadline) {
  RendezvousSpec spec = spec_of(rank, world, port);
  spec.deadline = deadline;
  return spec;
}

/// What happened to one process.
struct Outcome {
  Meeting meeting;
  std::string refused;  // the whole text of the refusal
  std::string code = "none";
  Conclusion conclusion;
};

/// Meets, and reports if the meeting succeeded.
Outcome taken_part(Rendezvous& rendezvous, const Report& report) {
  Outcome outcome;
  try {
    outcome.meeting = rendezvous.meet();
  } catch (const Error& error) {
    outcome.refused = error.what();
    outcome.code = error.refusal().code;
    return outcome;
  }
  outcome.conclusion = rendezvous.finish(report);
  return outcome;
}

Report report_of(int rank) { return {true, "text of rank " + std::to_string(rank)}; }

std::future<Outcome> started(const RendezvousSpec& spec) {
  return std::async(std::launch::async, [spec] {
    Rendezvous rendezvous(spec);
    return taken_part(rendezvous, report_of(spec.rank));
  });
}

/// Runs all of them at once, each in a thread of its own. Their outcomes have the same order.
std::vector<Outcome> outcomes_of(const std::vector<RendezvousSpec>& specs) {
  std::vector<std::future<Outcome>> ranks;
  for (const RendezvousSpec& spec : specs) ranks.push_back(started(spec));
  std::vector<Outcome> outcomes;
  for (auto& rank : ranks) outcomes.push_back(rank.get());
  return outcomes;
}

void expect_all_refused(const std::vector<Outcome>& outcomes, const std::string& code,
                        const std::string& words) {
  for (const Outcome& outcome : outcomes) {
    EXPECT_EQ(outcome.code, code) << outcome.refused;
    EXPECT_EQ(outcome.refused, outcomes.front().refused);  // all ranks must give the same text
  }
  EXPECT_TRUE(contains(outcomes.front().refused, words)) << outcomes.front().refused;
}

std::string host_name() {
  std::array<char, 256> name{};
  gethostname(name.data(), name.size() - 1);
  return name.data();
}

// ---- Complete worlds ----

TEST(Rendezvous, WorldsOfOneToSixteenInAnyOrder) {
  std::mt19937 random(1);  // the order in which the ranks start, with rank 0 anywhere
  for (int world = 1; world <= 16; ++world) {
    const int port = test::free_port();
    std::vector<int> order(static_cast<std::size_t>(world));
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), random);
    const int unequal = world % 3 == 0 ? world / 2 : -1;
    std::vector<std::future<Outcome>> ranks(order.size());
    for (const int rank : order) {
      ranks[static_cast<std::size_t>(rank)] = std::async(std::launch::async, [=] {
        Rendezvous rendezvous(spec_of(rank, world, port));
        return taken_part(rendezvous, {rank != unequal, "text of rank " + std::to_string(rank)});
      });
    }
    for (int rank = 0; rank < world; ++rank) {
      const Outcome outcome = ranks[static_cast<std::size_t>(rank)].get();
      ASSERT_EQ(outcome.refused, "") << rank << " of " << world;
      EXPECT_EQ(outcome.meeting.payload, bytes_of("payload of rank 0"));
      EXPECT_EQ(outcome.meeting.local_rank, rank);  // all ranks are on one machine
      EXPECT_EQ(outcome.conclusion.exit_code, unequal < 0 ? 0 : 1);
      EXPECT_FALSE(outcome.conclusion.failure);
      ASSERT_EQ(outcome.conclusion.reports.size(), rank == 0 ? order.size() : 0U);
      for (std::size_t other = 0; rank == 0 && other < order.size(); ++other) {
        EXPECT_EQ(outcome.conclusion.reports[other].text, "text of rank " + std::to_string(other));
        EXPECT_EQ(outcome.conclusion.reports[other].is_equal, static_cast<int>(other) != unequal);
      }
    }
  }
}

TEST(Rendezvous, TheLongestPayloadsAndTexts) {
  RendezvousSpec spec = spec_of(0, 2, test::free_port());
  spec.payload.assign(512, std::byte{1});
  Rendezvous host(spec);
  auto other = std::async(std::launch::async, [port = spec.master_port] {
    Rendezvous rank_1(spec_of(1, 2, port));
    return taken_part(rank_1, {false, std::string(10'000, 't')});
  });
  const Outcome outcome = taken_part(host, report_of(0));
  EXPECT_EQ(other.get().meeting.payload, spec.payload);
  EXPECT_EQ(outcome.conclusion.reports[1].text, std::string(4095, 't'));
  EXPECT_EQ(outcome.conclusion.exit_code, 1);
}

/// Every address of 127.0.0.0/8 is this machine.
TEST(Rendezvous, ANameIsListenedAtOnEveryAddressAndANumberOnItsOwn) {
  const auto outcome = [](const char* listened, const char* called) {
    RendezvousSpec host = spec_of(0, 2, test::free_port(), 500ms);
    RendezvousSpec guest = spec_of(1, 2, host.master_port, 500ms);
    host.master_addr = listened;
    guest.master_addr = called;
    return outcomes_of({host, guest})[1].code;
  };
  EXPECT_EQ(outcome("localhost", "localhost"), "none");
  EXPECT_EQ(outcome("localhost", "127.0.0.2"), "none");
  EXPECT_EQ(outcome("127.0.0.2", "127.0.0.2"), "none");
  EXPECT_EQ(outcome("127.0.0.1", "127.0.0.2"), "rendezvous_unreachable");
  const Socket v6(::socket(AF_INET6, SOCK_STREAM, 0));
  if (v6.is_open()) {
    EXPECT_EQ(outcome("::1", "::1"), "none");
    EXPECT_EQ(outcome("localhost", "::1"), "none");
  }
}

TEST(Rendezvous, SignalsInterruptNothing) {
  struct sigaction count {};
  struct sigaction before {};
  count.sa_handler = [](int) {};  // without SA_RESTART, so every wait ends in EINTR
  sigaction(SIGALRM, &count, &before);
  const itimerval often{{0, 500}, {0, 500}};
  setitimer(ITIMER_REAL, &often, nullptr);
  const int port = test::free_port();
  const auto outcomes =
      outcomes_of({spec_of(0, 4, port), spec_of(1, 4, port), spec_of(2, 4, port), spec_of(3, 4, port)});
  const auto lonely = outcomes_of({spec_of(0, 2, test::free_port(), 50ms)});  // about a hundred signals
  const itimerval never{};
  setitimer(ITIMER_REAL, &never, nullptr);
  sigaction(SIGALRM, &before, nullptr);
  for (const Outcome& outcome : outcomes) EXPECT_EQ(outcome.refused, "");
  EXPECT_EQ(lonely[0].code, "rendezvous_missing");
}

// ---- Incomplete worlds ----

TEST(Rendezvous, MissingRanksAreNamedByAll) {
  const int port = test::free_port();
  const auto outcomes = outcomes_of({spec_of(0, 8, port, 700ms), spec_of(1, 8, port), spec_of(3, 8, port)});
  expect_all_refused(outcomes, "rendezvous_missing",
                     "ranks 2, 4-7 did not come by the deadline of 700 ms; rule: rank 0 waits");
}

TEST(Rendezvous, TwoWithOneRankAreNamedByAllWithTheirHosts) {
  const int port = test::free_port();
  const auto outcomes =
      outcomes_of({spec_of(0, 4, port), spec_of(2, 4, port), spec_of(3, 4, port), spec_of(2, 4, port)});
  expect_all_refused(
      outcomes, "rendezvous_duplicate",
      "rank 2 came from " + host_name() + " and " + host_name() + "; rank 1 did not come by the deadline");
}

TEST(Rendezvous, WhatDiffersIsNamedByAllWithBothValues) {
  const auto outcomes = [](RendezvousSpec other) {
    other.master_port = test::free_port();
    return outcomes_of({spec_of(0, 3, other.master_port), spec_of(1, 3, other.master_port), other});
  };
  RendezvousSpec other = spec_of(2, 3, 0);
  other.configuration = 8;
  expect_all_refused(outcomes(other), "rendezvous_configuration",
                     "ranks 0-1 with version 1.0 in a world of 3 with configuration 0000000000000007, "
                     "rank 2 with version 1.0 in a world of 3 with configuration 0000000000000008; rule");
  other = spec_of(2, 3, 0);
  other.program_version = "2.0\n\x1b[2J";  // control characters are not printed
  expect_all_refused(outcomes(other), "rendezvous_configuration",
                     "rank 2 with version 2.0\\n\\x1b[2J in a world of 3");
  expect_all_refused(outcomes(spec_of(2, 4, 0)), "rendezvous_configuration",
                     "rank 2 with version 1.0 in a world of 4");
}

// ---- Rank 0 comes late, never comes, or another server has its port ----

TEST(Rendezvous, RankZeroMayComeLate) {
  const int port = test::free_port();
  auto guest = started(spec_of(1, 2, port));
  EXPECT_EQ(guest.wait_for(150ms), std::future_status::timeout);
  EXPECT_EQ(started(spec_of(0, 2, port)).get().refused, "");
  EXPECT_EQ(guest.get().refused, "");
}

TEST(Rendezvous, WithoutRankZeroTheOthersSaySo) {
  const int port = test::free_port();
  expect_all_refused(outcomes_of({spec_of(3, 4, port, 250ms)}), "rendezvous_unreachable",
                     "rank 3 reached nobody at 127.0.0.1:" + std::to_string(port) +
                         " by the deadline of 250 ms: Connection refused");
}

/// Listens, sends `answer` over each connection and holds it, until the server is destroyed.
class OtherServer {
 public:
  explicit OtherServer(std::string answer) : listener_(test::listen_at(0)), answer_(std::move(answer)) {
    thread_ = std::thread([this] { serve(); });
  }
  ~OtherServer() {
    ends_ = true;
    thread_.join();
  }
  int port() const { return test::port_of(listener_); }
  /// Returns what the first connection sent.
  Bytes heard() const {
    const std::lock_guard lock(mutex_);
    return heard_;
  }

 private:
  void serve() {
    std::vector<Socket> held;
    while (!ends_) {
      std::array<pollfd, 1> waiting = {{{listener_.descriptor(), POLLIN, 0}}};
      test::poll_until(waiting, Deadline::after(5ms));
      Socket socket = test::accept_from(listener_);
      if (socket.is_open()) {
        test::send_some(socket, bytes_of(answer_));
        held.push_back(std::move(socket));
      }
      if (held.empty()) continue;
      std::array<std::byte, 10'000> piece;
      const std::size_t count = test::receive_some(held.front(), piece).count;
      const std::lock_guard lock(mutex_);
      heard_.insert(heard_.end(), piece.begin(), piece.begin() + static_cast<std::ptrdiff_t>(count));
    }
  }

  Socket listener_;
  std::string answer_;
  mutable std::mutex mutex_;
  Bytes heard_;
  std::atomic<bool> ends_ = false;
  std::thread thread_;
};

TEST(Rendezvous, SomebodyElseAtThePortIsNoRankZero) {
  for (const auto& [answer, words] : std::vector<std::pair<std::string, std::string>>{
           {"HTTP/1.1 400 Bad Request\r\n\r\n", "sent another message than the expected one"},
           {"", "no answer"},
           {"HTTP", "no answer"}}) {
    const OtherServer server(answer);
    expect_all_refused(outcomes_of({spec_of(1, 2, server.port(), 250ms)}), "rendezvous_unreachable", words);
  }
}

/// Returns the bytes with which a rank says hello, and that it waits for hours.
Bytes hello_of(RendezvousSpec spec) {
  const OtherServer server("");
  spec.master_port = server.port();
  spec.deadline = 300ms;
  EXPECT_EQ(started(spec).get().code, "rendezvous_unreachable");
  Bytes hello = server.heard();
  EXPECT_GT(hello.size(), 100U);
  hello.at(16 + 3) = std::byte{1};  // 2^24 more milliseconds
  return hello;
}

// ---- No wait is longer than the deadline ----

/// Fails unless `work` is over before its deadline and a little have passed.
template <typename Work>
void expect_over_by(std::chrono::milliseconds deadline, const Work& work) {
  const Deadline latest = Deadline::after(deadline + 700ms);  // chosen, for threads that start late
  work();
  EXPECT_FALSE(latest.has_passed());
}

TEST(Rendezvous, AGuestWaitsNoLongerThanItsDeadline) {
  const OtherServer silent("");
  expect_over_by(800ms, [&] {
    EXPECT_EQ(started(spec_of(1, 2, silent.port(), 800ms)).get().code, "rendezvous_unreachable");
  });
}

TEST(Rendezvous, AGuestThatCameBeforeRankZeroWaitsNoLongerEither) {
  const RendezvousSpec guest = spec_of(1, 3, test::free_port(), 2s);
  expect_over_by(guest.deadline, [&] {
    auto early = started(guest);
    std::this_thread::sleep_for(700ms);
    const std::vector<Outcome> outcomes = {started(spec_of(0, 3, guest.master_port, 2s)).get(), early.get()};
    expect_all_refused(outcomes, "rendezvous_missing", "rank 2 did not come");  // in time to hear why
  });
}

TEST(Rendezvous, AtTheEndAGuestWaitsNoLongerThanItsDeadline) {
  const int port = test::free_port();
  Rendezvous host(spec_of(0, 2, port, 800ms));
  auto guest = std::async(std::launch::async, [port] {
    Rendezvous rendezvous(spec_of(1, 2, port, 800ms));
    rendezvous.meet();
    Conclusion conclusion;
    expect_over_by(800ms, [&] { conclusion = rendezvous.finish(report_of(1)); });
    return conclusion;
  });
  host.meet();
  const Conclusion conclusion = guest.get();  // rank 0 says nothing more
  EXPECT_EQ(conclusion.exit_code, 3);
  ASSERT_TRUE(conclusion.failure);
  EXPECT_EQ(conclusion.failure->code, "rendezvous_lost");
  EXPECT_TRUE(contains(conclusion.failure->numbers, "no answer"));
}

TEST(Rendezvous, RankZeroIsRefusedWhereItCannotListen) {
  const Socket taken = test::listen_at(0);
  EXPECT_EQ(test::refusal_code([&] { Rendezvous(spec_of(0, 2, test::port_of(taken))); }),
            "rendezvous_listen");
  RendezvousSpec elsewhere = spec_of(0, 2, test::free_port());
  elsewhere.master_addr = "192.0.2.1";  // an address that no machine has
  EXPECT_EQ(test::refusal_code([&] { Rendezvous{elsewhere}; }), "rendezvous_listen");
}

// ---- Strangers ----

/// Waits until the other side hangs up, and sends one byte of `drip` every 5 ms.
void wait_until_dropped(const Socket& socket, const Bytes& drip = {}) {
  const Deadline deadline = Deadline::after(10s);
  for (std::size_t sent = 0; !deadline.has_passed();) {
    std::array<std::byte, 64> buffer;
    std::array<pollfd, 1> waiting = {{{socket.descriptor(), POLLIN, 0}}};
    test::poll_until(waiting, drip.empty() ? deadline : Deadline::after(5ms));
    if (test::receive_some(socket, buffer).has_ended) return;
    if (sent < drip.size()) test::send_some(socket, std::span(drip).subspan(sent++, 1));
  }
  FAIL() << "the stranger was not dropped";
}

/// A world of four of which ranks 0 and 2 are here while strangers come and go, and ranks 1 and 3 come last.
TEST(Rendezvous, StrangersAreDroppedAndCostNobodyAnything) {
  const int port = test::free_port();
  RendezvousSpec spec = spec_of(0, 4, port);
  spec.hello_patience = 200ms;
  Rendezvous host(spec);
  auto first = started(spec_of(2, 4, port));
  auto meeting = std::async(std::launch::async, [&] { return taken_part(host, report_of(0)); });
  const Bytes hello = hello_of(spec_of(1, 4, 0));
  const auto sends = [&](const Bytes& bytes) {
    const Socket stranger = test::connect_to(port);
    test::send_some(stranger, bytes);
    wait_until_dropped(stranger);
  };
  sends(bytes_of("GET / HTTP/1.1\r\n\r\n"));
  sends({});
  sends(Bytes(hello.begin(), hello.end() - 1));
  Bytes twice = hello;
  twice.insert(twice.end(), hello.begin(), hello.end());
  sends(twice);
  Bytes no_rank = hello;
  std::fill_n(no_rank.begin() + 24, 4, std::byte{0x7f});  // the rank is far outside of its world
  sends(no_rank);
  std::mt19937 random(2);
  for (int i = 0; i < 30; ++i) {
    Bytes changed = hello;
    changed[random() % 8] ^= static_cast<std::byte>(1U << (random() % 8));
    changed.resize(random() % (2 * hello.size()));
    for (std::size_t k = 8; k < changed.size(); ++k) changed[k] = static_cast<std::byte>(random());
    sends(changed);
  }
  {
    const Socket slow = test::connect_to(port);
    wait_until_dropped(slow, hello);             // 5 ms per byte
    const Socket gone = test::connect_to(port);  // a rank that goes away
    test::send_some(gone, hello);
    shutdown(gone.descriptor(), SHUT_WR);
    wait_until_dropped(gone);
  }
  std::vector<Socket> many;  // all of them stay connected
  for (int i = 0; i < 100; ++i) many.push_back(test::connect_to(port));
  auto third = started(spec_of(1, 4, port));
  auto fourth = started(spec_of(3, 4, port));
  const Outcome outcome = meeting.get();
  EXPECT_EQ(outcome.refused, "");
  EXPECT_EQ(outcome.conclusion.exit_code, 0);
  for (auto* guest : {&first, &third, &fourth}) EXPECT_EQ(guest->get().refused, "");
}

TEST(Rendezvous, WithoutDescriptorsStrangersGiveWay) {
  RendezvousSpec spec = spec_of(0, 2, test::free_port());
  spec.hello_patience = 200ms;
  Rendezvous host(spec);
  const Bytes hello = hello_of(spec_of(1, 2, 0));
  // Thirty strangers and one rank wait to be accepted, while descriptors for about twenty are left.
  std::vector<Socket> many;
  for (int i = 0; i < 30; ++i) many.push_back(test::connect_to(spec.master_port));
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  const Socket guest = test::connect_to(spec.master_port);
  test::send_some(guest, hello);
  const rlimit low{static_cast<rlim_t>(guest.descriptor()) + 20, limit.rlim_max};
  setrlimit(RLIMIT_NOFILE, &low);
  const std::string code = test::refusal_code([&] { host.meet(); });
  setrlimit(RLIMIT_NOFILE, &limit);
  EXPECT_EQ(code, "none");
}

TEST(Rendezvous, WhoWasDroppedIsSaidWhereARankIsMissing) {
  const int port = test::free_port();
  auto host = started(spec_of(0, 2, port, 1s));
  Socket stranger;
  for (const Deadline soon = Deadline::after(900ms); !stranger.is_open() && !soon.has_passed();)
    stranger = test::connect_to(port);
  test::send_some(stranger, bytes_of("SSH-2.0-OpenSSH_9.2\r\n"));
  expect_all_refused({host.get()}, "rendezvous_missing",
                     "rank 1 did not come by the deadline of 1 s (1 others were dropped; 127.0.0.1 sent "
                     "another message than the expected one)");
}

// ---- The end ----

TEST(Rendezvous, ARankThatDiedIsNamedAndTheOthersTextsAreKept) {
  const int port = test::free_port();
  Rendezvous host(spec_of(0, 4, port));
  std::vector<pid_t> children;
  for (int rank = 1; rank < 4; ++rank) {
    const pid_t child = fork();
    if (child == 0) {  // the child is a process of its own
      Rendezvous rendezvous(spec_of(rank, 4, port));
      rendezvous.meet();
      if (rank == 2) raise(SIGKILL);
      _exit(rendezvous.finish(report_of(rank)).exit_code);
    }
    ASSERT_GT(child, 0);
    children.push_back(child);
  }
  const Outcome outcome = taken_part(host, report_of(0));
  std::vector<int> states;
  for (const pid_t child : children) {
    int state = 0;
    waitpid(child, &state, 0);
    states.push_back(state);
  }
  ASSERT_EQ(outcome.refused, "");
  EXPECT_EQ(outcome.conclusion.exit_code, 3);
  ASSERT_TRUE(outcome.conclusion.failure);
  EXPECT_EQ(outcome.conclusion.failure->code, "rendezvous_lost");
  EXPECT_EQ(outcome.conclusion.failure->numbers, "rank 2 on " + host_name() + " closed the connection");
  ASSERT_EQ(outcome.conclusion.reports.size(), 4U);
  EXPECT_EQ(outcome.conclusion.reports[1].text, "text of rank 1");
  EXPECT_EQ(outcome.conclusion.reports[2].text, "");
  EXPECT_FALSE(outcome.conclusion.reports[2].is_equal);
  EXPECT_EQ(outcome.conclusion.reports[3].text, "text of rank 3");
  EXPECT_TRUE(WIFSIGNALED(states[1]));
  for (const int survivor : {states[0], states[2]}) EXPECT_EQ(WEXITSTATUS(survivor), 3);
}

TEST(Rendezvous, ARankThatDoesNotReportIsNamedByTheDeadline) {
  const int port = test::free_port();
  Rendezvous host(spec_of(0, 4, port, 1s));
  const Bytes hello = hello_of(spec_of(2, 4, 0));
  auto reports = started(spec_of(1, 4, port));
  std::promise<void> ended;
  auto hangs = std::async(std::launch::async, [&] {
    Rendezvous rendezvous(spec_of(3, 4, port));
    rendezvous.meet();
    ended.get_future().wait();
  });
  const Socket liar = test::connect_to(port);  // sends bytes that are not a report
  test::send_some(liar, hello);
  host.meet();
  test::send_some(liar, bytes_of("this is no report"));
  const Conclusion conclusion = host.finish(report_of(0));
  ended.set_value();
  hangs.get();
  EXPECT_EQ(conclusion.exit_code, 3);
  ASSERT_TRUE(conclusion.failure);
  EXPECT_EQ(conclusion.failure->numbers, "rank 3 on " + host_name() +
                                             " did not report by the deadline of 1 s, rank 2 on " +
                                             host_name() + " sent another message than the expected one");
  const Conclusion heard = reports.get().conclusion;
  EXPECT_EQ(heard.exit_code, 3);
  ASSERT_TRUE(heard.failure);
  EXPECT_EQ(heard.failure->numbers, conclusion.failure->numbers);
}

TEST(Rendezvous, WithoutRankZeroTheEndSaysSo) {
  const int port = test::free_port();
  auto host = std::make_unique<Rendezvous>(spec_of(0, 2, port));
  auto guest = started(spec_of(1, 2, port));
  host->meet();
  host.reset();
  const Conclusion conclusion = guest.get().conclusion;
  EXPECT_EQ(conclusion.exit_code, 3);
  EXPECT_EQ(conclusion.failure->code, "rendezvous_lost");
  EXPECT_TRUE(contains(conclusion.failure->numbers, "rank 0 at 127.0.0.1:"));
}

}  // namespace
