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
#include "sim/meeting/socket.h"
#include "tests/support/refusal_code.h"

namespace {

using namespace sim;
using namespace std::chrono_literals;

Bytes bytes_of(const std::string& text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

RendezvousSpec spec_of(int rank, int world, int port) {
  RendezvousSpec spec;
  spec.rank = rank;
  spec.world_size = world;
  spec.master_port = port;
  spec.program_version = "1.0";
  spec.configuration = 7;
  spec.payload = bytes_of("payload of rank " + std::to_string(rank));
  spec.deadline = 20s;  // nobody waits for it unless a rank is missing
  spec.grace = 20s;
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

/// Runs rank 0 in this thread and each of the other specs in a thread of its own. The outcome of rank 0
/// comes first.
std::vector<Outcome> outcomes_of(const RendezvousSpec& first, std::vector<RendezvousSpec> others) {
  Rendezvous host(first);
  std::vector<std::future<Outcome>> guests;
  for (RendezvousSpec& spec : others) {
    spec.master_port = host.port();
    guests.push_back(started(spec));
  }
  std::vector<Outcome> outcomes = {taken_part(host, report_of(0))};
  for (auto& guest : guests) outcomes.push_back(guest.get());
  return outcomes;
}

void expect_all_refused(const std::vector<Outcome>& outcomes, const std::string& code) {
  for (const Outcome& outcome : outcomes) {
    EXPECT_EQ(outcome.code, code) << outcome.refused;
    EXPECT_EQ(outcome.refused, outcomes.front().refused);  // all ranks must give the same text
  }
}

/// Returns a port that nobody listens on and that the system does not hand out to connecting sockets.
int free_port() {
  for (int port = 20'000 + getpid() % 5'000; port < 32'000; ++port) {
    if (std::holds_alternative<Socket>(listen_at("127.0.0.1", port))) return port;
  }
  return 0;
}

// ---- Complete worlds ----

TEST(Rendezvous, WorldsOfOneToSixteenInAnyOrder) {
  std::mt19937 random(1);  // the order in which the ranks start, with rank 0 anywhere
  for (int world = 1; world <= 16; ++world) {
    const int port = free_port();
    std::vector<int> order(static_cast<std::size_t>(world));
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), random);
    const int unequal = world % 3 == 0 ? world / 2 : -1;
    std::vector<std::future<Outcome>> started_ranks(order.size());
    for (const int rank : order) {
      started_ranks[static_cast<std::size_t>(rank)] = std::async(std::launch::async, [=] {
        Rendezvous rendezvous(spec_of(rank, world, port));
        return taken_part(rendezvous, {rank != unequal, "text of rank " + std::to_string(rank)});
      });
    }
    for (int rank = 0; rank < world; ++rank) {
      const Outcome outcome = started_ranks[static_cast<std::size_t>(rank)].get();
      ASSERT_EQ(outcome.refused, "") << rank << " of " << world;
      EXPECT_EQ(outcome.meeting.payload, bytes_of("payload of rank 0"));
      EXPECT_EQ(outcome.meeting.local_rank, rank);  // all ranks are on one machine
      EXPECT_EQ(outcome.meeting.local_world_size, world);
      EXPECT_EQ(outcome.conclusion.exit_code, unequal < 0 ? 0 : 1);
      EXPECT_FALSE(outcome.conclusion.failure);
      ASSERT_EQ(outcome.meeting.payloads.size(), rank == 0 ? order.size() : 0U);
      ASSERT_EQ(outcome.conclusion.reports.size(), rank == 0 ? order.size() : 0U);
      for (std::size_t other = 0; rank == 0 && other < order.size(); ++other) {
        EXPECT_EQ(outcome.meeting.payloads[other], bytes_of("payload of rank " + std::to_string(other)));
        EXPECT_EQ(outcome.conclusion.reports[other].text, "text of rank " + std::to_string(other));
        EXPECT_EQ(outcome.conclusion.reports[other].is_equal, static_cast<int>(other) != unequal);
      }
    }
  }
}

TEST(Rendezvous, TheLongestPayloadsAndTexts) {
  RendezvousSpec host = spec_of(0, 2, 0);
  RendezvousSpec guest = spec_of(1, 2, 0);
  host.payload.assign(kMostPayload, std::byte{1});
  guest.payload.assign(kMostPayload, std::byte{2});
  Rendezvous rendezvous(host);
  guest.master_port = rendezvous.port();
  auto other = std::async(std::launch::async, [&] {
    Rendezvous rank_1(guest);
    return taken_part(rank_1, {false, std::string(3 * kMostText, 't')});
  });
  const Outcome outcome = taken_part(rendezvous, {true, std::string(kMostText + 1, '0')});
  EXPECT_EQ(other.get().meeting.payload, host.payload);
  ASSERT_EQ(outcome.meeting.payloads.size(), 2U);
  EXPECT_EQ(outcome.meeting.payloads[1], guest.payload);
  EXPECT_EQ(outcome.conclusion.reports[0].text, std::string(kMostText, '0'));
  EXPECT_EQ(outcome.conclusion.reports[1].text, std::string(kMostText, 't'));
  EXPECT_EQ(outcome.conclusion.exit_code, 1);
}

TEST(Rendezvous, OverIPv6AndByName) {
  for (const char* address : {"::1", "localhost"}) {
    if (std::string(address) == "::1" && std::holds_alternative<NoSocket>(listen_at(address, 0))) continue;
    RendezvousSpec host = spec_of(0, 2, 0);
    RendezvousSpec guest = spec_of(1, 2, 0);
    host.master_addr = guest.master_addr = address;
    for (const Outcome& outcome : outcomes_of(host, {guest})) EXPECT_EQ(outcome.refused, "") << address;
  }
}

/// Every address of 127.0.0.0/8 is this machine.
TEST(Rendezvous, ANameIsListenedAtOnEveryAddressAndANumberOnItsOwn) {
  const auto reaches = [](const char* listened, const char* called) {
    const auto listener = listen_at(listened, 0);
    const int port = port_of(std::get<Socket>(listener));
    return std::holds_alternative<Socket>(connect_to(called, port, Deadline::after(10s)));
  };
  EXPECT_TRUE(reaches("localhost", "127.0.0.2"));
  EXPECT_TRUE(reaches("127.0.0.2", "127.0.0.2"));
  EXPECT_FALSE(reaches("127.0.0.1", "127.0.0.2"));
}

TEST(Rendezvous, SignalsInterruptNothing) {
  struct sigaction count {};
  struct sigaction before {};
  count.sa_handler = [](int) {};  // without SA_RESTART, so every wait ends in EINTR
  sigaction(SIGALRM, &count, &before);
  const itimerval often{{0, 500}, {0, 500}};
  setitimer(ITIMER_REAL, &often, nullptr);
  const auto outcomes = outcomes_of(spec_of(0, 4, 0), {spec_of(1, 4, 0), spec_of(2, 4, 0), spec_of(3, 4, 0)});
  RendezvousSpec alone = spec_of(0, 2, 0);
  alone.deadline = 50ms;  // about a hundred signals arrive in this time
  const std::string lonely = test::refusal_code([&] { Rendezvous(alone).meet(); });
  const Deadline deadline = Deadline::after(20ms);
  poll_until({}, deadline);
  const bool has_waited = deadline.has_passed();
  const itimerval never{};
  setitimer(ITIMER_REAL, &never, nullptr);
  sigaction(SIGALRM, &before, nullptr);
  for (const Outcome& outcome : outcomes) EXPECT_EQ(outcome.refused, "");
  EXPECT_EQ(lonely, "rendezvous_missing");
  EXPECT_TRUE(has_waited);
}

// ---- Incomplete worlds ----

TEST(Rendezvous, AMissingRankIsNamedByAll) {
  RendezvousSpec host = spec_of(0, 5, 0);
  host.deadline = 700ms;  // long enough for two threads to start
  const auto outcomes = outcomes_of(host, {spec_of(1, 5, 0), spec_of(3, 5, 0)});
  expect_all_refused(outcomes, "rendezvous_missing");
  EXPECT_NE(outcomes[0].refused.find("ranks 2, 4 of 5 did not come within 700 ms"), std::string::npos)
      << outcomes[0].refused;
}

TEST(Rendezvous, TwoWithOneRankAreNamedByAllAtOnce) {
  const auto outcomes = outcomes_of(spec_of(0, 4, 0), {spec_of(2, 4, 0), spec_of(3, 4, 0), spec_of(2, 4, 0)});
  expect_all_refused(outcomes, "rendezvous_duplicate");
  const std::string& text = outcomes[0].refused;
  EXPECT_NE(text.find("rank 2 came 2 times, from " + host_name() + " (127.0.0.1:"), std::string::npos)
      << text;
  EXPECT_NE(text.find("rank 1 of 4 did not come"), std::string::npos) << text;
}

TEST(Rendezvous, WhatDiffersIsNamedByAllWithBothValues) {
  RendezvousSpec other = spec_of(2, 3, 0);
  other.configuration = 8;
  auto outcomes = outcomes_of(spec_of(0, 3, 0), {spec_of(1, 3, 0), other});
  expect_all_refused(outcomes, "rendezvous_configuration");
  EXPECT_NE(outcomes[0].refused.find("0000000000000007 on rank 0, 0000000000000008 on rank 2"),
            std::string::npos);

  other = spec_of(2, 3, 0);
  other.program_version = "2.0";
  outcomes = outcomes_of(spec_of(0, 3, 0), {spec_of(1, 3, 0), other});
  expect_all_refused(outcomes, "rendezvous_version");
  EXPECT_NE(outcomes[0].refused.find("version 1.0 on rank 0, 2.0 on rank 2"), std::string::npos);

  // Two ranks come from a world of 4. Rank 0 waits for all ranks of the larger world, so that every rank
  // hears the reason.
  outcomes = outcomes_of(spec_of(0, 3, 0), {spec_of(1, 3, 0), spec_of(2, 4, 0), spec_of(3, 4, 0)});
  expect_all_refused(outcomes, "rendezvous_world");
  EXPECT_NE(outcomes[0].refused.find("a world of 3 on rank 0, 4 on ranks 2, 3"), std::string::npos);
}

// ---- Rank 0 comes late, never comes, or another server has its port ----

TEST(Rendezvous, RankZeroMayComeLate) {
  const int port = free_port();
  auto guest = started(spec_of(1, 2, port));
  EXPECT_EQ(guest.wait_for(150ms), std::future_status::timeout);
  EXPECT_EQ(started(spec_of(0, 2, port)).get().refused, "");
  EXPECT_EQ(guest.get().refused, "");
}

TEST(Rendezvous, WithoutRankZeroTheOthersSaySo) {
  RendezvousSpec guest = spec_of(3, 4, free_port());
  guest.deadline = 200ms;
  const Outcome outcome = started(guest).get();
  EXPECT_EQ(outcome.code, "rendezvous_unreachable");
  EXPECT_NE(outcome.refused.find("rank 3 tried 127.0.0.1:" + std::to_string(guest.master_port)),
            std::string::npos)
      << outcome.refused;
  EXPECT_NE(outcome.refused.find("Connection refused"), std::string::npos) << outcome.refused;
}

/// Listens, sends `answer` over each connection and holds it, until the server is destroyed.
class OtherServer {
 public:
  explicit OtherServer(std::string answer)
      : listener_(std::get<Socket>(listen_at("127.0.0.1", 0))), answer_(std::move(answer)) {
    thread_ = std::thread([this] { serve(); });
  }
  ~OtherServer() {
    ends_ = true;
    thread_.join();
  }
  int port() const { return port_of(listener_); }

 private:
  void serve() {
    std::vector<Socket> held;
    while (!ends_) {
      std::array<pollfd, 1> waiting = {{{listener_.descriptor(), POLLIN, 0}}};
      poll_until(waiting, Deadline::after(5ms));
      auto accepted = accept_from(listener_);
      if (!std::holds_alternative<Accepted>(accepted)) continue;
      Socket& socket = std::get<Accepted>(accepted).socket;
      if (!answer_.empty()) send_some(socket, bytes_of(answer_));
      held.push_back(std::move(socket));
    }
  }

  Socket listener_;
  std::string answer_;
  std::atomic<bool> ends_ = false;
  std::thread thread_;
};

TEST(Rendezvous, SomebodyElseAtThePortIsNoRankZero) {
  const OtherServer web("HTTP/1.1 400 Bad Request\r\n\r\n");
  RendezvousSpec guest = spec_of(1, 2, web.port());
  guest.deadline = guest.grace = 100ms;
  Outcome outcome = started(guest).get();
  EXPECT_EQ(outcome.code, "rendezvous_unreachable");
  EXPECT_NE(outcome.refused.find("it answered with bad magic"), std::string::npos) << outcome.refused;

  const OtherServer silent("");
  guest.master_port = silent.port();
  EXPECT_EQ(started(guest).get().code, "rendezvous_silent");

  const Bytes frame = encoded_frame({FrameKind::answer, Bytes(3)});
  const OtherServer lying(std::string(reinterpret_cast<const char*>(frame.data()), frame.size()));
  guest.master_port = lying.port();
  outcome = started(guest).get();
  EXPECT_NE(outcome.refused.find("it sent a message that is not an answer"), std::string::npos)
      << outcome.refused;
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
  RendezvousSpec guest = spec_of(1, 2, silent.port());
  guest.deadline = 800ms;
  expect_over_by(guest.deadline, [&] { EXPECT_EQ(started(guest).get().code, "rendezvous_silent"); });
}

TEST(Rendezvous, AGuestThatCameBeforeRankZeroWaitsNoLongerEither) {
  RendezvousSpec guest = spec_of(1, 3, free_port());
  guest.deadline = 2s;
  expect_over_by(guest.deadline, [&] {
    auto early = started(guest);
    std::this_thread::sleep_for(700ms);
    RendezvousSpec host = spec_of(0, 3, guest.master_port);
    host.deadline = guest.deadline;
    const std::vector<Outcome> outcomes = {started(host).get(), early.get()};
    expect_all_refused(outcomes, "rendezvous_missing");  // in time for the guest to hear why
    EXPECT_NE(outcomes[0].refused.find("rank 2 of 3 did not come"), std::string::npos);
  });
}

TEST(Rendezvous, AtTheEndAGuestWaitsNoLongerThanItsDeadline) {
  RendezvousSpec spec = spec_of(0, 2, 0);
  spec.deadline = 800ms;
  Rendezvous host(spec);
  RendezvousSpec other = spec_of(1, 2, host.port());
  other.deadline = spec.deadline;
  auto guest = std::async(std::launch::async, [&] {
    Rendezvous rendezvous(other);
    rendezvous.meet();
    Conclusion conclusion;
    expect_over_by(other.deadline, [&] { conclusion = rendezvous.finish(report_of(1)); });
    return conclusion;
  });
  host.meet();
  const Conclusion conclusion = guest.get();  // rank 0 says nothing more
  ASSERT_TRUE(conclusion.failure);
  EXPECT_EQ(conclusion.failure->code, "rendezvous_lost");
  EXPECT_NE(conclusion.failure->numbers.find("no answer"), std::string::npos);
}

TEST(Rendezvous, RankZeroIsRefusedWhereItCannotListen) {
  const auto taken = std::get<Socket>(listen_at("127.0.0.1", 0));
  EXPECT_EQ(test::refusal_code([&] { Rendezvous(spec_of(0, 2, port_of(taken))); }), "rendezvous_listen");
  RendezvousSpec elsewhere = spec_of(0, 2, 0);
  elsewhere.master_addr = "192.0.2.1";  // an address that no machine has
  EXPECT_EQ(test::refusal_code([&] { Rendezvous{elsewhere}; }), "rendezvous_listen");

  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  const rlimit low{std::min<rlim_t>(limit.rlim_cur, 200), limit.rlim_max};
  setrlimit(RLIMIT_NOFILE, &low);
  EXPECT_EQ(test::refusal_code([&] { Rendezvous(spec_of(0, 1000, 0)); }), "rendezvous_files");
  setrlimit(RLIMIT_NOFILE, &limit);
}

TEST(Rendezvous, WhatNoRankCanBeIsRefused) {
  const auto code = [](RendezvousSpec spec) { return test::refusal_code([&] { Rendezvous{spec}; }); };
  EXPECT_EQ(code(spec_of(2, 2, 1)), "rendezvous_spec");
  EXPECT_EQ(code(spec_of(-1, 2, 1)), "rendezvous_spec");
  EXPECT_EQ(code(spec_of(1, 2, 0)), "rendezvous_spec");
  EXPECT_EQ(code(spec_of(1, 2, 70'000)), "rendezvous_spec");
  RendezvousSpec large = spec_of(0, 2, 0);
  large.payload.resize(kMostPayload + 1);
  EXPECT_EQ(code(large), "rendezvous_spec");
}

// ---- Strangers ----

Socket stranger_at(int port) {
  auto socket = connect_to("127.0.0.1", port, Deadline::after(10s));
  EXPECT_TRUE(std::holds_alternative<Socket>(socket));
  return std::move(std::get<Socket>(socket));
}

/// Waits until the other side hangs up, and sends one byte of `drip` every 5 ms.
void wait_until_dropped(const Socket& socket, const Bytes& drip = {}) {
  const Deadline deadline = Deadline::after(10s);
  for (std::size_t sent = 0; !deadline.has_passed();) {
    std::array<std::byte, 64> buffer;
    std::array<pollfd, 1> waiting = {{{socket.descriptor(), POLLIN, 0}}};
    poll_until(waiting, drip.empty() ? deadline : Deadline::after(5ms));
    if (receive_some(socket, buffer).has_ended) return;
    if (sent < drip.size()) send_some(socket, std::span(drip).subspan(sent++, 1));
  }
  FAIL() << "the stranger was not dropped";
}

bool is_noted(const DroppedConnections& dropped, const std::string& reason) {
  return std::any_of(dropped.first.begin(), dropped.first.end(), [&](const DroppedConnection& one) {
    return one.reason.find(reason) != std::string::npos;
  });
}

TEST(Rendezvous, StrangersAreDroppedAndCostNobodyAnything) {
  RendezvousSpec spec = spec_of(0, 4, 0);
  spec.hello_patience = 200ms;
  Rendezvous host(spec);
  auto first = started(spec_of(2, 4, host.port()));  // waits while the strangers come and go
  auto meeting = std::async(std::launch::async, [&] { return taken_part(host, report_of(0)); });

  const Bytes hello = encoded_frame(frame_of(Hello{"1.0", 1, 4, 7, "host", Bytes(100)}));
  const auto sends = [&](const Bytes& bytes) {
    const Socket stranger = stranger_at(host.port());
    send_some(stranger, bytes);
    wait_until_dropped(stranger);
  };
  sends(bytes_of("GET / HTTP/1.1\r\n\r\n"));
  Bytes changed = hello;
  changed[4] = std::byte{9};
  sends(changed);
  changed = hello;
  changed[11] = std::byte{255};
  sends(changed);
  changed = hello;
  changed.back() = std::byte{1};
  sends(changed);
  sends(encoded_frame(frame_of(Report{true, "I am no hello"})));
  {
    const Socket slow = stranger_at(host.port());
    wait_until_dropped(slow, hello);  // 5 ms per byte, half a second in all
    const Socket half = stranger_at(host.port());
    send_some(half, std::span(hello).first(30));
    shutdown(half.descriptor(), SHUT_WR);
    wait_until_dropped(half);
    const Socket nothing = stranger_at(host.port());
    shutdown(nothing.descriptor(), SHUT_WR);
    wait_until_dropped(nothing);
  }
  {  // One rank goes away and another keeps talking after its hello.
    const Socket gone = stranger_at(host.port());
    send_some(gone, hello);
    shutdown(gone.descriptor(), SHUT_WR);
    wait_until_dropped(gone);
    Bytes twice = hello;
    twice.insert(twice.end(), hello.begin(), hello.end());
    sends(twice);
  }
  std::vector<Socket> many;  // more than are held at once, and all of them stay connected
  for (std::size_t i = 0; i < kMostStrangers + 40; ++i) many.push_back(stranger_at(host.port()));

  auto third = started(spec_of(1, 4, host.port()));
  auto fourth = started(spec_of(3, 4, host.port()));
  const Outcome outcome = meeting.get();
  EXPECT_EQ(outcome.refused, "");
  EXPECT_EQ(outcome.conclusion.exit_code, 0);
  for (auto* guest : {&first, &third, &fourth}) EXPECT_EQ(guest->get().refused, "");

  const DroppedConnections& dropped = host.dropped();
  for (const char* reason : {"bad magic", "protocol version 9, not 2", "a body of ", "bad checksum",
                             "sent a message that is not a hello", "no hello within 200 ms",
                             "ended in its hello", "ended without a hello",
                             "rank 1 left before all ranks were here", "rank 1 sent a message out of turn"}) {
    EXPECT_TRUE(is_noted(dropped, reason)) << reason;
  }
  EXPECT_GT(dropped.count, 10);
  EXPECT_LE(dropped.first.size(), DroppedConnections::kMostKept);
  for (const DroppedConnection& one : dropped.first)
    EXPECT_TRUE(one.peer.starts_with("127.0.0.1:")) << one.peer;
}

TEST(Rendezvous, TheOldestOfManyStrangersGiveWay) {
  RendezvousSpec spec = spec_of(0, 2, 0);
  Rendezvous host(spec);
  auto meeting = std::async(std::launch::async, [&] { return taken_part(host, report_of(0)); });
  std::vector<Socket> many;
  for (std::size_t i = 0; i < kMostStrangers + 1; ++i) many.push_back(stranger_at(host.port()));
  wait_until_dropped(many.front());
  EXPECT_EQ(started(spec_of(1, 2, host.port())).get().refused, "");
  EXPECT_EQ(meeting.get().refused, "");
  EXPECT_TRUE(is_noted(host.dropped(), "gave way to newer connections"));
}

TEST(Rendezvous, WithoutDescriptorsStrangersGiveWay) {
  RendezvousSpec spec = spec_of(0, 2, 0);
  Rendezvous host(spec);
  // Thirty strangers and one rank wait to be accepted, while descriptors for about twenty are left.
  std::vector<Socket> many;
  for (int i = 0; i < 30; ++i) many.push_back(stranger_at(host.port()));
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  const Socket guest = stranger_at(host.port());
  send_some(guest, encoded_frame(frame_of(Hello{"1.0", 1, 2, 7, "host", {}})));
  const rlimit low{static_cast<rlim_t>(guest.descriptor()) + 20, limit.rlim_max};
  setrlimit(RLIMIT_NOFILE, &low);
  const std::string code = test::refusal_code([&] { host.meet(); });
  setrlimit(RLIMIT_NOFILE, &limit);
  EXPECT_EQ(code, "none");
  EXPECT_TRUE(is_noted(host.dropped(), "no file descriptors were left"));
}

TEST(Rendezvous, MoreHellosThanTwiceTheWorldAreDropped) {
  RendezvousSpec spec = spec_of(0, 2, 0);
  spec.deadline = 2s;  // it ends the meeting, and a busy machine needs a part of it for so many hellos
  Rendezvous host(spec);
  // Hellos that promise a large world keep rank 0 waiting, but their number is bounded.
  const Bytes hello = encoded_frame(frame_of(Hello{"1.0", 1, 1000, 7, "host", {}}));
  std::vector<Socket> many;
  for (std::size_t i = 0; i < kMostStrangers + 10; ++i) {
    many.push_back(stranger_at(host.port()));
    send_some(many.back(), hello);
  }
  EXPECT_EQ(test::refusal_code([&] { host.meet(); }), "rendezvous_world");
  EXPECT_TRUE(is_noted(host.dropped(), "more than twice as many ranks came as the world has"));
}

TEST(Rendezvous, SendingToOneThatHungUpRaisesNoSignal) {
  const auto listener = std::get<Socket>(listen_at("127.0.0.1", 0));
  const Socket sender = stranger_at(port_of(listener));
  std::array<pollfd, 1> waiting = {{{listener.descriptor(), POLLIN, 0}}};
  poll_until(waiting, Deadline::after(10s));
  std::get<Accepted>(accept_from(listener)).socket.close();
  const Deadline deadline = Deadline::after(10s);
  bool has_ended = false;
  while (!has_ended && !deadline.has_passed())
    has_ended = send_some(sender, bytes_of("is anybody there")).has_ended;
  EXPECT_TRUE(has_ended);
}

// ---- The end ----

TEST(Rendezvous, ARankThatDiedIsNamedAndTheOthersTextsAreKept) {
  Rendezvous host(spec_of(0, 4, 0));
  std::vector<pid_t> children;
  for (int rank = 1; rank < 4; ++rank) {
    const pid_t child = fork();
    if (child == 0) {  // the child is a process of its own
      Rendezvous rendezvous(spec_of(rank, 4, host.port()));
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
  EXPECT_EQ(outcome.conclusion.failure->numbers, "rank 2 of 4 died");
  ASSERT_EQ(outcome.conclusion.reports.size(), 4U);
  EXPECT_EQ(outcome.conclusion.reports[1].text, "text of rank 1");
  EXPECT_EQ(outcome.conclusion.reports[2], (Report{false, ""}));
  EXPECT_EQ(outcome.conclusion.reports[3].text, "text of rank 3");
  EXPECT_TRUE(WIFSIGNALED(states[1]));
  for (const int survivor : {states[0], states[2]}) EXPECT_EQ(WEXITSTATUS(survivor), 3);
}

TEST(Rendezvous, ARankThatDoesNotReportIsNamedByTheDeadline) {
  RendezvousSpec spec = spec_of(0, 4, 0);
  spec.deadline = 1s;
  Rendezvous host(spec);
  auto reports = started(spec_of(1, 4, host.port()));
  std::promise<void> ended;
  auto hangs = std::async(std::launch::async, [&] {
    Rendezvous rendezvous(spec_of(3, 4, host.port()));
    rendezvous.meet();
    ended.get_future().wait();
  });
  const Socket liar = stranger_at(host.port());  // sends bytes that are not a report
  send_some(liar, encoded_frame(frame_of(Hello{"1.0", 2, 4, 7, "host", {}})));
  host.meet();
  send_some(liar, bytes_of("no frame"));
  const Conclusion conclusion = host.finish(report_of(0));
  ended.set_value();
  hangs.get();
  EXPECT_EQ(conclusion.exit_code, 3);
  ASSERT_TRUE(conclusion.failure);
  EXPECT_EQ(conclusion.failure->numbers,
            "rank 3 of 4 did not report within 1 s, rank 2 of 4 sent a message that is not a report");
  const Conclusion heard = reports.get().conclusion;
  EXPECT_EQ(heard.exit_code, 3);
  ASSERT_TRUE(heard.failure);
  EXPECT_EQ(heard.failure->numbers, conclusion.failure->numbers);
}

TEST(Rendezvous, WithoutRankZeroTheEndSaysSo) {
  auto host = std::make_unique<Rendezvous>(spec_of(0, 2, 0));
  auto guest = started(spec_of(1, 2, host->port()));
  host->meet();
  host.reset();
  const Conclusion conclusion = guest.get().conclusion;
  EXPECT_EQ(conclusion.exit_code, 3);
  EXPECT_EQ(conclusion.failure->code, "rendezvous_lost");
  EXPECT_NE(conclusion.failure->numbers.find("it closed the connection"), std::string::npos);
}

}  // namespace
