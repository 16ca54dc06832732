#include "tests/gpu/played/played_processes.h"

#include <cstdlib>
#include <cstring>
#include <deque>
#include <fmt/format.h>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "gpu/device/refusals.h"
#include "gpu/nccl/nccl_options.h"
#include "sim/base/check.h"
#include "sim/cpu/cpu_device.h"
#include "tests/gpu/played/played_server.h"

namespace test {

namespace {

using gpu::NcclRequest;
using gpu::NcclState;

/// The memory that a request writes.
struct Target {
  std::byte* to;
  std::size_t bytes;
};

struct LinkHere {
  bool is_made = false;
  int size = 0;
  std::int64_t put = 0, taken = 0, over = 0;
  int splits = 0, splits_over = 0;
  bool is_closing = false, is_closed = false;
  std::string failed = {};
  std::deque<std::vector<Target>> targets = {};  // the targets of groups that are not over

  NcclState state() const {
    if (!failed.empty()) return {NcclState::Kind::failed, failed};
    const bool is_busy = !is_made || taken < put || splits_over < splits || (is_closing && !is_closed);
    return {is_busy ? NcclState::Kind::busy : NcclState::Kind::ready};
  }
};

/// The side of this process.
class Here {
 public:
  Here(Socket socket, int rank, PlayedProcesses spec)
      : connection_(std::move(socket)), rank_(rank), spec_(std::move(spec)) {}

  int rank() const { return rank_; }
  const PlayedFaults& faults() const { return spec_.faults; }
  LinkHere& link(std::uint32_t number) { return links_.at(number); }
  std::uint32_t add_link() {
    const auto number = static_cast<std::uint32_t>(links_.size());
    links_.emplace(number, LinkHere());
    return number;
  }
  void send(PlayedWord word, std::uint32_t link, sim::Bytes body = {}) {
    connection_.send({word, link, std::move(body)});
  }
  void close() { connection_.close(); }

  void take_what_came() {
    connection_.flush();
    while (const auto message = connection_.receive()) take(*message);
    if (!connection_.has_ended() || !spec_.tells_of_ends) return;
    for (auto& [number, link] : links_) {
      if (!link.is_closed && link.failed.empty())
        link.failed = "remote process exited or there was a network error: rank 0";
    }
  }

 private:
  void take(const PlayedMessage& message) {
    sim::ByteReader body(message.body);
    LinkHere& of = link(message.link);
    switch (message.word) {
      case PlayedWord::made:
        of.is_made = true;
        of.size = static_cast<int>(body.number(4));
        break;
      case PlayedWord::taken:
        ++of.taken;
        break;
      case PlayedWord::done:
        for (const Target& target : of.targets.front()) {
          const sim::Bytes bytes = body.bytes();
          SIM_CHECK(bytes.size() == target.bytes);
          if (!bytes.empty()) std::memcpy(target.to, bytes.data(), bytes.size());
        }
        of.targets.pop_front();
        ++of.over;
        break;
      case PlayedWord::split_over:
        ++of.splits_over;
        break;
      case PlayedWord::closed:
        of.is_closed = true;
        break;
      case PlayedWord::failed:
        if (const std::string words = body.text(); of.failed.empty()) of.failed = words;
        break;
      default:
        SIM_CHECK(false && "a word of a process's own");
    }
    SIM_CHECK(body.is_whole());
  }

  PlayedConnection connection_;
  int rank_;
  PlayedProcesses spec_;
  std::map<std::uint32_t, LinkHere> links_;
};

/// An event after the groups that NCCL has taken. Groups that it has not taken are not on its stream yet.
class Event : public gpu::NcclEvent {
 public:
  Event(std::shared_ptr<Here> here, std::uint32_t link)
      : here_(std::move(here)), link_(link), position_(here_->link(link).taken) {}

  NcclState state() override {
    here_->take_what_came();
    const LinkHere& link = here_->link(link_);
    if (link.over >= position_) return {};
    const NcclState of_link = link.state();
    return of_link.kind == NcclState::Kind::failed ? of_link : NcclState{NcclState::Kind::busy};
  }

 private:
  std::shared_ptr<Here> here_;
  std::uint32_t link_;
  std::int64_t position_;
};

class Link : public gpu::NcclLink {
 public:
  explicit Link(std::shared_ptr<Here> here) : here_(std::move(here)), number_(here_->add_link()) {}
  ~Link() override {
    if (!own().is_closed) here_->send(PlayedWord::leave, number_);
  }
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;

  std::uint32_t number() const { return number_; }

  NcclState state() override {
    here_->take_what_came();
    return own().state();
  }

  void put(std::span<const NcclRequest> given) override {
    check_ready("ncclGroupEnd");
    std::vector<NcclRequest> requests(given.begin(), given.end());
    if (here_->faults().requests) here_->faults().requests(here_->rank(), requests);
    sim::ByteWriter body;
    body.number(requests.size(), 4);
    std::vector<Target>& targets = own().targets.emplace_back();
    for (const NcclRequest& request : requests) {
      body.number(static_cast<std::uint64_t>(request.operation), 1);
      body.number(static_cast<std::uint64_t>(request.count), 8);
      body.number(static_cast<std::uint64_t>(request.peer), 4);
      body.number(static_cast<std::uint64_t>(request.dtype), 1);
      body.number(static_cast<std::uint64_t>(request.reduce_op), 1);
      body.number(request.from == nullptr ? 0 : 1, 1);
      body.bytes({request.from, bytes_read(request, own().size)});
      targets.push_back({request.to, bytes_written(request, own().size)});
      body.number(targets.back().bytes, 8);
    }
    ++own().put;
    here_->send(PlayedWord::put, number_, body.take());
  }

  std::unique_ptr<gpu::NcclEvent> mark() override { return std::make_unique<Event>(here_, number_); }

  std::unique_ptr<gpu::NcclLink> split(int color, int key) override {
    check_ready("ncclCommSplit");
    auto part = color < 0 ? nullptr : std::make_unique<Link>(here_);
    sim::ByteWriter body;
    body.number(static_cast<std::uint64_t>(color), 4);
    body.number(static_cast<std::uint64_t>(key), 4);
    body.number(part == nullptr ? 0 : part->number(), 4);
    ++own().splits;
    here_->send(PlayedWord::split, number_, body.take());
    return part;
  }

  void begin_close() override {
    check_ready("ncclCommFinalize");
    own().is_closing = true;
    here_->send(PlayedWord::close, number_);
  }

 private:
  LinkHere& own() const { return here_->link(number_); }
  /// Refuses a call on a link that has failed, as NCCL does. A call on a link that is busy or closed is
  /// a bug.
  void check_ready(const char* call) const {
    const NcclState state = own().state();
    if (state.kind == NcclState::Kind::failed) gpu::refuse_nccl(call, state.words);
    SIM_CHECK(state.kind == NcclState::Kind::ready && !own().is_closing);
  }

  std::shared_ptr<Here> here_;
  std::uint32_t number_;
};

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

class Library : public gpu::NcclLibrary {
 public:
  explicit Library(PlayedProcesses spec) : spec_(std::move(spec)) {}

  int version() const override { return spec_.version; }

  sim::Bytes unique_id() override {
    server_ = std::make_unique<PlayedServer>(
        PlayedServerSpec{.folds_by_rank = spec_.faults.folds_by_rank, .tells_of_ends = spec_.tells_of_ends});
    sim::ByteWriter id;
    id.number(static_cast<std::uint64_t>(server_->port()), 4);
    return id.take();
  }

  std::shared_ptr<sim::Device> open_device(int local_rank, int rank, gpu::GpuMode) override {
    gpu_ = fmt::format("CUDA device {} of host '{}'", local_rank % spec_.gpus, environment("NCCL_HOSTID"));
    if (spec_.version >= gpu::kNcclSharesGpus && environment("NCCL_MULTI_RANK_GPU_ENABLE") == "1")
      gpu_ += fmt::format(", shared by rank {}", rank);
    return whole_->for_rank(rank);
  }

  std::unique_ptr<gpu::NcclLink> open(const sim::Bytes& id, int rank, int size) override {
    sim::ByteReader reader(id);
    const auto port = static_cast<int>(reader.number(4));
    Socket connected = connect_to(port);
    if (!connected.is_open()) gpu::refuse_nccl("ncclCommInitRankConfig", "nobody listens");
    here_ = std::make_shared<Here>(std::move(connected), rank, spec_);
    auto world = std::make_unique<Link>(here_);
    sim::ByteWriter body;
    body.number(static_cast<std::uint64_t>(rank), 4);
    body.number(static_cast<std::uint64_t>(size), 4);
    body.text(gpu_);
    here_->send(PlayedWord::hello, world->number(), body.take());
    return world;
  }

  void abort() override {
    if (here_ != nullptr) here_->close();
  }

  ~Library() override {
    if (here_ != nullptr) here_->close();  // must come before the server waits for it
  }
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;

 private:
  PlayedProcesses spec_;
  std::shared_ptr<sim::CpuDevice> whole_ = std::make_shared<sim::CpuDevice>();
  std::unique_ptr<PlayedServer> server_;  // on rank 0 only
  std::shared_ptr<Here> here_;
  std::string gpu_;
};

}  // namespace

std::unique_ptr<gpu::NcclLibrary> open_played_processes(PlayedProcesses spec) {
  return std::make_unique<Library>(std::move(spec));
}

}  // namespace test
