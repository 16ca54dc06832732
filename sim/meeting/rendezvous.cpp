#include "sim/meeting/rendezvous.h"

#include <algorithm>
#include <array>
#include <boost/asio.hpp>
#include <cstddef>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <functional>
#include <list>
#include <map>
#include <set>
#include <thread>
#include <type_traits>
#include <utility>

#include "sim/base/check.h"
#include "sim/base/deadline.h"

namespace sim {

namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;
using std::chrono::milliseconds;

constexpr const char* kOther = "sent another message than the expected one";

/// A text that is cut to a fixed size.
template <std::size_t size>
struct Words {
  std::array<char, size> bytes{};
  Words(const std::string& text = "") { text.copy(bytes.data(), size - 1); }
  std::string text() const { return {bytes.begin(), std::find(bytes.begin(), bytes.end() - 1, '\0')}; }
};

/// What a rank says to rank 0, when it comes and when it ends. Its bytes are sent as they lie in memory.
struct Hello {
  static constexpr std::uint64_t kSign = 0x3473'6970'6865'6c6c;
  std::uint64_t sign = kSign, configuration = 0;
  std::int64_t patience = 0;  // milliseconds until the rank gives up
  std::int32_t rank = 0, world_size = 1, is_equal = 1, unused = 0;
  Words<256> version, host;
  Words<4096> report;
};

/// What rank 0 answers to either. A refusal without a code is none.
struct Answer {
  static constexpr std::uint64_t kSign = 0x3473'6970'616e'7377;
  std::uint64_t sign = kSign, payload_size = 0;
  std::int32_t is_equal = 1, local_rank = 0;
  std::array<std::byte, 512> payload{};
  std::array<Words<512>, 5> words;

  void set(const Refusal& refusal) {
    words = {refusal.code, refusal.option, refusal.numbers, refusal.rule, refusal.hint};
  }
  Refusal refusal() const {
    return {words[0].text(), words[1].text(), words[2].text(), words[3].text(), words[4].text()};
  }
};
static_assert(std::has_unique_object_representations_v<Hello> &&
              std::has_unique_object_representations_v<Answer>);

/// Returns what an answer brings, or throws its refusal.
Meeting meeting_of(const Answer& answer) {
  if (const Refusal refusal = answer.refusal(); !refusal.code.empty()) refuse(refusal);
  const auto size = static_cast<std::ptrdiff_t>(std::min(answer.payload_size, answer.payload.size()));
  return {{answer.payload.begin(), answer.payload.begin() + size}, answer.local_rank};
}

/// A connection to rank 0: of a rank, or of a stranger.
struct Peer {
  tcp::socket socket;
  std::string place;  // its other end
  Deadline patience;  // until its hello
  Hello hello = {}, report = {};
  int heard = 0;           // of these two
  std::string fault = {};  // why no more of them will come
};

using Findings = std::map<std::string, std::set<int>>;  // what is found of ranks

/// Returns a text such as "rank 3 came from a and b, ranks 4, 8-11 did not come".
std::string text_of(const Findings& findings) {
  std::vector<std::string> texts;
  for (const auto& [what, ranks] : findings) {
    std::vector<std::string> ranges;
    for (auto first = ranks.begin(), next = first; first != ranks.end(); first = next) {
      int last = *first;
      while (++next != ranks.end() && *next == last + 1) ++last;
      ranges.push_back(last == *first ? std::to_string(last) : fmt::format("{}-{}", *first, last));
    }
    texts.push_back(fmt::format("rank{} {} {}", ranks.size() == 1 ? "" : "s", fmt::join(ranges, ", "), what));
  }
  return fmt::format("{}", fmt::join(texts, ", "));
}

/// Returns why those who came are not the world of the first, or a refusal without a code.
Refusal roll_call(const std::vector<Hello>& all, const std::string& late) {
  Findings configurations, twice, missing;
  std::map<int, std::vector<std::string>> hosts;  // by rank
  for (const Hello& hello : all) {
    configurations[fmt::format("with version {} in a world of {} with configuration {:016x}",
                               hello.version.text(), hello.world_size, hello.configuration)]
        .insert(hello.rank);
    hosts[hello.rank].push_back(hello.host.text());
  }
  for (const auto& [rank, of] : hosts) {
    if (of.size() > 1) twice[fmt::format("came from {}", fmt::join(of, " and "))].insert(rank);
  }
  for (int rank = 0; rank < all[0].world_size; ++rank) {
    if (!hosts.contains(rank)) missing["did not come " + late].insert(rank);
  }
  if (configurations.size() == 1) configurations.clear();
  std::vector<Refusal> problems = {
      {"rendezvous_configuration", "command line", text_of(configurations),
       "all ranks run one version of the program, in one world, with the same options and files",
       "install one build on all nodes, and start all processes with one launcher and one command line"},
      {"rendezvous_duplicate", "--rank", text_of(twice), "each rank is one process",
       "give each process its own --rank, and each job that runs at the same time its own --master-port"},
      {"rendezvous_missing", "--world-size", text_of(missing), "rank 0 waits for every rank of its world",
       "look at what those ranks wrote, check that they reach this address, or set a longer --deadline"}};
  std::erase_if(problems, [](const Refusal& problem) { return problem.numbers.empty(); });
  for (std::size_t i = 1; i < problems.size(); ++i) problems[0].numbers += "; " + problems[i].numbers;
  return problems.empty() ? Refusal() : problems[0];
}

}  // namespace

struct Rendezvous::Network {
  const RendezvousSpec spec;
  Deadline deadline = Deadline::after({});
  bool has_met = false;
  asio::io_context io = {};
  tcp::socket zero{io};  // on the other ranks, to rank 0
  tcp::acceptor acceptor{io};
  std::list<Peer> peers = {};             // of rank 0
  std::vector<std::string> dropped = {};  // connections, with the reasons

  std::string address() const { return fmt::format("{}:{}", spec.master_addr, spec.master_port); }
  std::string late() const { return "by the deadline of " + sim::text_of(spec.deadline); }

  Hello message(const Report& report) const {
    return {.configuration = spec.configuration,
            .patience = deadline.remaining().count(),
            .rank = spec.rank,
            .world_size = spec.world_size,
            .is_equal = report.is_equal,
            .version = spec.program_version,
            .host = asio::ip::host_name(),
            .report = report.text};
  }

  void listen() {
    error_code is_name;
    const auto number = asio::ip::make_address(spec.master_addr, is_name);
    const auto port = static_cast<std::uint16_t>(spec.master_port);
    std::vector<tcp::endpoint> ends = {{number, port}};
    // A host may resolve its own name to another address than other hosts do, such as 127.0.1.1.
    if (is_name) ends = {{tcp::v6(), port}, {tcp::v4(), port}};
    for (const tcp::endpoint& end : ends) {
      try {
        acceptor = tcp::acceptor(io, end);
        return acceptor.non_blocking(true);
      } catch (const boost::system::system_error& error) {
        if (end != ends.back()) continue;
        refuse(
            {.code = "rendezvous_listen",
             .option = "--master-addr",
             .numbers = fmt::format("rank 0 at {}: {}", address(), error.code().message()),
             .rule = "rank 0 runs on the node of the address, and nobody else listens at the port",
             .hint = "give --master-addr the node of rank 0, and --master-port a port that is free there"});
      }
    }
  }

  void accept() {
    for (error_code error; !error;) {
      tcp::socket socket = acceptor.accept(error);
      if (!error) socket.non_blocking(true, error);
      const std::string place = error ? "" : socket.remote_endpoint(error).address().to_string();
      if (!error) peers.push_back({std::move(socket), place, Deadline::after(spec.hello_patience)});
    }
  }

  /// Takes the next message of a peer if all of it has arrived.
  void hear(Peer& peer) {
    Hello next;
    error_code error;
    const auto bytes = asio::buffer(&next, sizeof next);
    const std::size_t count = peer.socket.receive(bytes, tcp::socket::message_peek, error);
    if (error && error != asio::error::would_block) peer.fault = "closed the connection";
    if (count >= sizeof next.sign && next.sign != Hello::kSign) peer.fault = kOther;
    if (count < sizeof next || !peer.fault.empty()) return;
    peer.socket.receive(bytes, 0, error);
    const bool is_report = has_met && next.rank == peer.hello.rank;
    const bool is_one = peer.heard == 0 ? 0 <= next.rank && next.rank < next.world_size : is_report;
    if (!is_one) peer.fault = kOther;
    if (!is_one) return;
    (++peer.heard == 1 ? peer.hello : peer.report) = next;
    constexpr milliseconds kGrace{5'000};  // in which the answer arrives
    const milliseconds patience(next.patience);
    deadline = std::min(deadline, Deadline::after(patience - std::min(kGrace, patience / 4)));
  }

  void run_until(const std::function<bool()>& is_over) {
    constexpr milliseconds kTick{5};
    for (; !is_over() && !deadline.has_passed(); std::this_thread::sleep_for(kTick)) {
      if (!has_met) accept();
      for (Peer& peer : peers) {
        if (peer.heard < 2 && peer.fault.empty()) hear(peer);
        if (!has_met && peer.heard == 0 && peer.patience.has_passed()) peer.fault = "sent no hello in time";
        if (!has_met && !peer.fault.empty()) dropped.push_back(peer.place + " " + peer.fault);
      }
      if (!has_met) std::erase_if(peers, [](const Peer& peer) { return !peer.fault.empty(); });
    }
  }

  /// Sends an answer, which fits into the buffers of a connection, without waiting.
  static void tell(Peer& peer, const Answer& answer) {
    error_code ignored;
    asio::write(peer.socket, asio::buffer(&answer, sizeof answer), ignored);
  }

  Meeting meet_others() {
    const auto is_here = [](const Peer& peer) { return peer.heard > 0; };
    run_until([&] { return std::count_if(peers.begin(), peers.end(), is_here) + 1 >= spec.world_size; });
    acceptor.close();
    peers.remove_if(std::not_fn(is_here));
    peers.sort([](const Peer& a, const Peer& b) { return a.hello.rank < b.hello.rank; });
    std::vector<Hello> all = {message({})};
    for (const Peer& peer : peers) all.push_back(peer.hello);
    std::string when = late();
    if (!dropped.empty()) when += fmt::format(" ({} others were dropped; {})", dropped.size(), dropped[0]);
    Answer answer{.payload_size = spec.payload.size()};
    std::copy(spec.payload.begin(), spec.payload.end(), answer.payload.begin());
    answer.set(roll_call(all, when));
    std::map<std::string, int> ranks_of_host = {{all[0].host.text(), 1}};
    for (Peer& peer : peers) {
      answer.local_rank = ranks_of_host[peer.hello.host.text()]++;
      tell(peer, answer);
    }
    answer.local_rank = 0;
    return meeting_of(answer);
  }

  /// Waits for the reports of all ranks. Returns which are lost, if any.
  std::string hear_reports(std::vector<Report>& reports) {
    const auto is_through = [](const Peer& peer) { return peer.heard == 2 || !peer.fault.empty(); };
    run_until([&] { return std::all_of(peers.begin(), peers.end(), is_through); });
    reports.assign(static_cast<std::size_t>(spec.world_size), {false, ""});
    Findings lost;
    for (const auto& [socket, place, patience, hello, end, heard, fault] : peers) {
      const std::string why = fault.empty() ? "did not report " + late() : fault;
      if (heard < 2) lost[fmt::format("on {} {}", hello.host.text(), why)].insert(hello.rank);
      if (heard == 2) reports[static_cast<std::size_t>(hello.rank)] = {end.is_equal == 1, end.report.text()};
    }
    return text_of(lost);
  }

  /// Waits until an operation of the connection to rank 0 ends, or the deadline. A signal ends no wait.
  template <class Start>
  error_code end_of(Start start) {
    error_code end;
    start([&end](const error_code& error, const auto&...) { end = error; });
    io.restart();
    io.run_for(deadline.remaining());
    if (io.stopped()) return end;
    zero.close();
    io.run();
    return asio::error::timed_out;
  }

  /// Sends a message to rank 0, and reads its answer. Returns the fault, if any.
  std::string ask(const Report& report, Answer& answer) {
    const Hello question = message(report);
    const auto is_other = [&] { return answer.sign != Answer::kSign; };
    const auto missing = [&](const error_code& error, std::size_t count) {
      return error || (count >= sizeof answer.sign && is_other()) ? 0 : sizeof answer - count;
    };
    error_code error =
        end_of([&](auto end) { async_write(zero, asio::buffer(&question, sizeof question), end); });
    if (!error)
      error = end_of([&](auto end) { async_read(zero, asio::buffer(&answer, sizeof answer), missing, end); });
    if (!error) return is_other() ? kOther : "";
    if (error == asio::error::eof) return "it closed the connection";
    return deadline.has_passed() ? "no answer" : error.message();
  }

  Meeting meet_rank_zero() {
    constexpr milliseconds kPause{100};
    std::string why;
    while (!deadline.has_passed()) {
      Answer answer;
      error_code error;
      const auto ends = tcp::resolver(io).resolve(spec.master_addr, std::to_string(spec.master_port), error);
      zero = tcp::socket(io);
      if (!error) error = end_of([&](auto end) { async_connect(zero, ends, end); });
      const std::string fault = error ? error.message() : ask({}, answer);
      if (fault.empty()) return meeting_of(answer);
      if (why.empty() || !deadline.has_passed()) why = fault;  // what ended by the deadline says less
      std::this_thread::sleep_for(std::min(kPause, deadline.remaining()));
    }
    refuse({.code = "rendezvous_unreachable",
            .option = "--master-addr",
            .numbers = fmt::format("rank {} reached nobody at {} {}: {}", spec.rank, address(), late(), why),
            .rule = "rank 0 listens at the master address, and answers before a rank gives up",
            .hint = "check that rank 0 runs, what it wrote, and that nothing else listens at the address"});
  }

  Meeting meet() {
    deadline = Deadline::after(spec.deadline);
    Meeting meeting = spec.rank > 0 ? meet_rank_zero() : meet_others();
    has_met = true;
    return meeting;
  }

  Conclusion finish(const Report& report) {
    SIM_CHECK(has_met);
    deadline = Deadline::after(spec.deadline);
    Answer answer;
    Conclusion conclusion;
    std::string lost = spec.rank == 0 ? hear_reports(conclusion.reports) : ask(report, answer);
    if (spec.rank == 0) conclusion.reports[0] = report;
    if (spec.rank > 0 && !lost.empty()) lost = fmt::format("rank 0 at {}: {}", address(), lost);
    for (const Report& one : conclusion.reports) answer.is_equal &= one.is_equal ? 1 : 0;
    if (!lost.empty())
      answer.set({"rendezvous_lost", spec.rank == 0 ? "--world-size" : "--master-addr", lost,
                  "all ranks report to rank 0, and it answers", "look at what those ranks wrote last"});
    for (Peer& peer : peers) tell(peer, answer);
    if (const Refusal refusal = answer.refusal(); !refusal.code.empty()) conclusion.failure = refusal;
    conclusion.exit_code = conclusion.failure ? 3 : answer.is_equal == 1 ? 0 : 1;
    return conclusion;
  }
};

Rendezvous::Rendezvous(RendezvousSpec spec) : network_(new Network{std::move(spec)}) {
  SIM_CHECK(network_->spec.payload.size() <= sizeof(Answer::payload));
  if (network_->spec.rank == 0 && network_->spec.world_size > 1) network_->listen();
}

Rendezvous::~Rendezvous() = default;
Meeting Rendezvous::meet() { return network_->meet(); }
Conclusion Rendezvous::finish(const Report& report) { return network_->finish(report); }

}  // namespace sim
