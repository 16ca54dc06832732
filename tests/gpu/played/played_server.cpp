#include "tests/gpu/played/played_server.h"

#include <algorithm>
#include <chrono>
#include <fmt/format.h>

#include "sim/base/check.h"

namespace test {

namespace {

using gpu::NcclOperation;
using gpu::NcclRequest;

Socket listener() {
  Socket listening = listen_at(0);
  SIM_CHECK(listening.is_open());
  return listening;
}

sim::Bytes text_body(const std::string& words) {
  sim::ByteWriter body;
  body.text(words);
  return body.take();
}

}  // namespace

PlayedServer::PlayedServer(PlayedServerSpec spec)
    : spec_(spec), rules_{.folds_by_rank = spec.folds_by_rank}, listener_(listener()), thread_([this] {
        serve();
      }) {}

PlayedServer::~PlayedServer() {
  is_over_ = true;
  thread_.join();
}

bool PlayedServer::is_anybody_there() const {
  return std::any_of(processes_.begin(), processes_.end(),
                     [](const Process& process) { return !process.is_gone; });
}

void PlayedServer::serve() {
  constexpr std::chrono::milliseconds kNap{20};
  constexpr std::chrono::seconds kForTheRest{5};
  std::optional<sim::Deadline> end;
  for (;;) {
    if (is_over_ && !end) end = sim::Deadline::after(kForTheRest);
    if (end && (end->has_passed() || !is_anybody_there())) return;
    std::vector<pollfd> sockets = {{listener_.descriptor(), POLLIN, 0}};
    for (const Process& process : processes_) {
      if (!process.is_gone) sockets.push_back(process.connection.interest());
    }
    poll_until(sockets, sim::Deadline::after(kNap));
    Socket come = accept_from(listener_);
    if (come.is_open()) processes_.emplace_back(std::move(come));
    for (Process& process : processes_) {
      if (!process.is_gone) hear(process);
    }
  }
}

void PlayedServer::tell(Link& link, PlayedWord word, sim::Bytes body) {
  link.process->connection.send({word, link.number, std::move(body)});
}

void PlayedServer::hear(Process& process) {
  process.connection.flush();
  while (const auto message = process.connection.receive()) hear(process, *message);
  if (process.connection.has_ended()) lose(process);
}

void PlayedServer::hear(Process& process, const PlayedMessage& message) {
  sim::ByteReader body(message.body);
  if (message.word == PlayedWord::hello) return hear_hello(process, body);
  const auto found = process.links.find(message.link);
  if (found == process.links.end() && message.word == PlayedWord::leave) return;  // the link was never made
  SIM_CHECK(found != process.links.end());
  Link& link = found->second;
  Comm& comm = *link.comm;
  switch (message.word) {
    case PlayedWord::put:
      return hear_put(link, body);
    case PlayedWord::split: {
      const int color = static_cast<std::int32_t>(body.number(4));
      const int key = static_cast<std::int32_t>(body.number(4));
      const auto made = static_cast<std::uint32_t>(body.number(4));
      link.splits.push_back(color < 0 ? std::nullopt : std::optional(made));
      comm.matched->split(link.place, color, key);
      return end_splits(comm);
    }
    case PlayedWord::close:
      link.is_closing = true;
      for (const Link* other : comm.links) {
        if (!other->is_closing) return;
      }
      for (Link* other : comm.links) {
        other->is_closed = true;
        tell(*other, PlayedWord::closed);
      }
      return;
    case PlayedWord::leave:
      link.is_closed = true;
      return fail(comm, fmt::format("rank {} has aborted", process.rank));
    default:
      SIM_CHECK(false && "a word of the server's own");
  }
}

void PlayedServer::hear_hello(Process& process, sim::ByteReader& body) {
  process.rank = static_cast<int>(body.number(4));
  const auto size = static_cast<std::size_t>(body.number(4));
  process.gpu = body.text();
  SIM_CHECK(body.is_whole());
  const auto come =
      std::count_if(processes_.begin(), processes_.end(), [](const Process& one) { return one.rank >= 0; });
  if (static_cast<std::size_t>(come) == size) begin_world();
}

/// Names two processes that have one GPU, in NCCL's words. Returns "" if there are none.
std::string PlayedServer::gpus_taken_twice() const {
  std::map<std::string, int> rank_of;
  for (const Process& process : processes_) {
    const auto [first, is_first] = rank_of.emplace(process.gpu, process.rank);
    if (!is_first)
      return fmt::format("invalid usage: Duplicate GPU detected : rank {} and rank {} both on {}",
                         first->second, process.rank, process.gpu);
  }
  return "";
}

void PlayedServer::begin_world() {
  if (const std::string twice = gpus_taken_twice(); !twice.empty()) {
    for (Process& process : processes_) process.connection.send({PlayedWord::failed, 0, text_body(twice)});
    return;
  }
  std::vector<int> ranks;
  for (std::size_t rank = 0; rank < processes_.size(); ++rank) ranks.push_back(static_cast<int>(rank));
  Comm& world = comms_.emplace_back(Comm{.matched = std::make_shared<PlayedComm>(rules_, ranks)});
  for (Process& process : processes_) add_link(process, 0, world, static_cast<std::size_t>(process.rank));
}

void PlayedServer::add_link(Process& process, std::uint32_t number, Comm& comm, std::size_t place) {
  comm.links.resize(std::max(comm.links.size(), place + 1), nullptr);
  comm.links[place] = &process.links.emplace(number, Link{&process, number, &comm, place}).first->second;
  sim::ByteWriter body;
  body.number(static_cast<std::uint64_t>(comm.matched->size()), 4);
  tell(*comm.links[place], PlayedWord::made, body.take());
}

void PlayedServer::hear_put(Link& link, sim::ByteReader& body) {
  Comm& comm = *link.comm;
  Group& group = link.groups.emplace_back();
  const auto count = static_cast<std::size_t>(body.number(4));
  for (std::size_t i = 0; i < count; ++i) {
    NcclRequest request{};
    request.operation = static_cast<NcclOperation>(body.number(1));
    request.count = static_cast<std::int64_t>(body.number(8));
    request.peer = static_cast<std::int32_t>(body.number(4));
    request.dtype = static_cast<sim::DType>(body.number(1));
    request.reduce_op = static_cast<sim::ReduceOp>(body.number(1));
    const bool reads = body.number(1) != 0;
    group.read.push_back(body.bytes());
    group.written.emplace_back(static_cast<std::size_t>(body.number(8)));
    if (reads) request.from = group.read.back().data();
    if (!group.written.back().empty()) request.to = group.written.back().data();
    group.requests.push_back(request);
    const auto peer = static_cast<std::size_t>(request.peer);
    if (request.operation == NcclOperation::send) comm.sends.emplace(link.place, peer);
    if (request.operation == NcclOperation::recv) comm.receives.emplace(peer, link.place);
  }
  SIM_CHECK(body.is_whole());
  take_groups(comm);
  comm.matched->put(link.place, group.requests);
  give_results(comm);
}

/// Takes the groups in which the members of every message have met.
void PlayedServer::take_groups(Comm& comm) {
  const auto has_met = [&](const Link& link, const NcclRequest& request) {
    const auto peer = static_cast<std::size_t>(request.peer);
    if (request.operation == NcclOperation::send) return comm.receives.contains({link.place, peer});
    return request.operation != NcclOperation::recv || comm.sends.contains({peer, link.place});
  };
  for (Link* link : comm.links) {
    for (Group& group : link->groups) {
      const bool all_met = std::all_of(group.requests.begin(), group.requests.end(),
                                       [&](const NcclRequest& request) { return has_met(*link, request); });
      if (group.is_taken || !all_met) continue;
      group.is_taken = true;
      tell(*link, PlayedWord::taken);
    }
  }
}

void PlayedServer::give_results(Comm& comm) {
  for (Link* link : comm.links) {
    const std::int64_t waiting =
        comm.matched->groups_put(link->place) - comm.matched->groups_over(link->place);
    while (std::ssize(link->groups) > waiting) {
      sim::ByteWriter body;
      for (const sim::Bytes& written : link->groups.front().written) body.bytes(written);
      tell(*link, PlayedWord::done, body.take());
      link->groups.pop_front();
    }
  }
}

void PlayedServer::end_splits(Comm& comm) {
  for (; comm.splits_over < comm.matched->splits_over(); ++comm.splits_over) {
    std::map<int, Comm*> parts;  // by the rank of the first member
    for (Link* link : comm.links) {
      const std::optional<std::uint32_t> number = link->splits.front();
      link->splits.pop_front();
      const PlayedComm::Child& child = comm.matched->child(comm.splits_over, link->place);
      SIM_CHECK(number.has_value() == (child.comm != nullptr));
      if (number) {
        Comm*& part = parts[child.comm->rank_at(0)];
        if (part == nullptr) {
          part = &comms_.emplace_back(Comm{.matched = child.comm});
        }
        add_link(*link->process, *number, *part, child.place);
      }
      tell(*link, PlayedWord::split_over);
    }
  }
}

void PlayedServer::fail(Comm& comm, const std::string& words) {
  if (!spec_.tells_of_ends) return;
  for (Link* link : comm.links) {
    if (!link->is_closed) tell(*link, PlayedWord::failed, text_body(words));
  }
}

/// Handles a process that ended, aborted, or is done.
void PlayedServer::lose(Process& process) {
  process.is_gone = true;
  process.connection.close();
  for (auto& [number, link] : process.links) {
    if (link.is_closed) continue;
    link.is_closed = true;
    fail(*link.comm,
         fmt::format("remote process exited or there was a network error: rank {}", process.rank));
  }
}

}  // namespace test
