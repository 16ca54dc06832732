#pragma once

/// The NCCL that one process plays for all processes of a world: a thread that listens on this machine and
/// matches requests on communicators of played_comm.h.
///
///   PlayedServer server({});
///   ... PlayedConnection(connect_to("127.0.0.1", server.port(), ...)) from each process (played_messages.h)
///
/// Calls   As NCCL does, the server takes a group only when the two members of every message in it have met,
///         so the first messages of two members wait for each other on their hosts. A link is closed when all
///         its members close it. When a process ends otherwise or aborts, the others are told or not, because
///         NCCL does either.
/// Errors  A link fails with an error of the kind that NCCL gives, in NCCL's words. Two processes of one host
///         that have the same GPU are such an error.

#include <atomic>
#include <deque>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/gpu/played/played_comm.h"
#include "tests/gpu/played/played_messages.h"

namespace test {

struct PlayedServerSpec {
  bool folds_by_rank = false;
  bool tells_of_ends = true;
};

class PlayedServer {
 public:
  explicit PlayedServer(PlayedServerSpec spec);
  /// Waits some time for processes that are still connected.
  ~PlayedServer();
  PlayedServer(const PlayedServer&) = delete;
  PlayedServer& operator=(const PlayedServer&) = delete;

  int port() const { return test::port_of(listener_); }

 private:
  struct Process;
  struct Comm;
  /// A group that is not over. Its requests point into its bytes.
  struct Group {
    std::vector<gpu::NcclRequest> requests;
    std::vector<sim::Bytes> read;
    std::vector<sim::Bytes> written;
    bool is_taken = false;
  };
  /// The link of one process to one communicator.
  struct Link {
    Process* process;
    std::uint32_t number;
    Comm* comm;
    std::size_t place;
    std::deque<Group> groups = {};  // those that are not over, the oldest first
    // Those that are not over, with the link that each makes.
    std::deque<std::optional<std::uint32_t>> splits = {};
    bool is_closing = false;
    bool is_closed = false;
  };
  using Pairs = std::set<std::pair<std::size_t, std::size_t>>;  // (from place, to place)
  struct Comm {
    std::shared_ptr<PlayedComm> matched;
    std::vector<Link*> links = {};  // by place
    std::size_t splits_over = 0;
    Pairs sends = {};  // all messages that ever came in
    Pairs receives = {};
  };
  struct Process {
    explicit Process(Socket socket) : connection(std::move(socket)) {}
    PlayedConnection connection;
    std::string gpu = {};  // with the name of its host
    int rank = -1;
    std::map<std::uint32_t, Link> links = {};
    bool is_gone = false;
  };

  void serve();
  bool is_anybody_there() const;
  void hear(Process& process);
  void hear(Process& process, const PlayedMessage& message);
  void hear_hello(Process& process, sim::ByteReader& body);
  std::string gpus_taken_twice() const;
  void begin_world();
  void add_link(Process& process, std::uint32_t number, Comm& comm, std::size_t place);
  void hear_put(Link& link, sim::ByteReader& body);
  static void take_groups(Comm& comm);
  static void give_results(Comm& comm);
  void end_splits(Comm& comm);
  void fail(Comm& comm, const std::string& words);
  void lose(Process& process);
  static void tell(Link& link, PlayedWord word, sim::Bytes body = {});

  PlayedServerSpec spec_;
  PlayedRules rules_;
  Socket listener_;
  std::list<Process> processes_;
  std::list<Comm> comms_;
  std::atomic<bool> is_over_ = false;
  std::thread thread_;
};

}  // namespace test
