#include "tests/gpu/played_nccl.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <optional>
#include <thread>
#include <tuple>
#include <utility>

#include "gpu/nccl_communicator.h"
#include "sim/base/bfloat16.h"
#include "sim/base/check.h"
#include "sim/base/error.h"
#include "sim/tensor/cpu_device.h"
#include "sim/tensor/running_device.h"

namespace test {

namespace {

using gpu::NcclOperation;
using gpu::NcclRequest;
using gpu::NcclState;
using sim::DType;
using sim::ReduceOp;

bool is_collective(NcclOperation operation) { return operation < NcclOperation::send; }

/// The place whose element comes first in an all_reduce's sum.
std::int64_t first_place(std::int64_t i, std::int64_t count, std::int64_t n, std::int64_t size) {
  const std::int64_t chunk = (std::int64_t{2} << 20) / size;
  const std::int64_t begin = i / (n * chunk) * (n * chunk);
  const std::int64_t left = count - begin;
  std::int64_t of_place = chunk;
  if (left < n * chunk) {
    of_place = (left + n - 1) / n;
    while (of_place * size % 16 != 0) ++of_place;
  }
  return ((i - begin) / of_place + 1) % n;
}

template <typename Scalar>
auto widened(Scalar value) {
  if constexpr (std::is_same_v<Scalar, std::int32_t>) {
    return std::int64_t{value};
  } else if constexpr (std::is_same_v<Scalar, sim::bfloat16>) {
    return sim::to_float(value);
  } else {
    return value;
  }
}

template <typename Scalar, typename Wide>
Scalar narrowed(Wide value) {
  if constexpr (std::is_same_v<Scalar, sim::bfloat16>) {
    return sim::to_bfloat16(value);
  } else {
    return static_cast<Scalar>(value);
  }
}

template <typename Scalar>
Scalar joined(ReduceOp op, Scalar a, Scalar b) {
  const auto x = widened(a);
  const auto y = widened(b);
  if (op == ReduceOp::sum) return narrowed<Scalar>(x + y);
  if (op == ReduceOp::product) return narrowed<Scalar>(x * y);
  return op == ReduceOp::max ? (x < y ? b : a) : (y < x ? b : a);
}

template <typename Scalar>
void fold(const std::vector<const NcclRequest*>& members, int to, bool by_rank) {
  const NcclRequest& first = *members.front();
  const auto n = std::ssize(members);
  std::vector<Scalar> sums(static_cast<std::size_t>(first.count));
  for (std::int64_t i = 0; i < first.count; ++i) {
    std::int64_t place = (to + 1) % n;
    if (first.operation == NcclOperation::all_reduce) place = first_place(i, first.count, n, sizeof(Scalar));
    if (by_rank) place = 0;
    const std::int64_t at = first.operation == NcclOperation::reduce_scatter ? to * first.count + i : i;
    const auto value = [&](std::int64_t of) {
      Scalar x;
      std::memcpy(
          &x,
          members[static_cast<std::size_t>(of % n)]->from + at * static_cast<std::int64_t>(sizeof(Scalar)),
          sizeof x);
      return x;
    };
    Scalar sum = value(place);
    for (std::int64_t k = 1; k < n; ++k) sum = joined(first.reduce_op, sum, value(place + k));
    sums[static_cast<std::size_t>(i)] = sum;
  }
  std::memcpy(members[static_cast<std::size_t>(to)]->to, sums.data(), sums.size() * sizeof(Scalar));
}

void fold_of_type(const std::vector<const NcclRequest*>& members, int to, bool by_rank) {
  switch (members.front()->dtype) {
    case DType::f64:
      return fold<double>(members, to, by_rank);
    case DType::f32:
      return fold<float>(members, to, by_rank);
    case DType::bf16:
      return fold<sim::bfloat16>(members, to, by_rank);
    case DType::i32:
      return fold<std::int32_t>(members, to, by_rank);
    case DType::field:
      break;
  }
  CHECK(false);
}

std::size_t bytes_of(const NcclRequest& request) {
  return static_cast<std::size_t>(request.count * sim::size_of(request.dtype));
}

}  // namespace

/// What a member put in together.
struct PlayedGroup {
  std::vector<NcclRequest> requests;
  std::vector<bool> is_done;
  bool is_over() const {
    return std::all_of(is_done.begin(), is_done.end(), [](bool done) { return done; });
  }
};

struct PlayedMember {
  std::deque<PlayedGroup> waiting;
  std::int64_t put = 0;
  std::int64_t over = 0;
  std::vector<std::pair<int, int>> splits;  // color, key
};

struct PlayedComm {
  explicit PlayedComm(PlayedNccl& of_nccl, std::vector<int> of_ranks)
      : nccl(of_nccl), ranks(std::move(of_ranks)), members(ranks.size()) {}

  PlayedNccl& nccl;
  std::vector<int> ranks;
  std::vector<PlayedMember> members;
  std::vector<std::vector<std::pair<std::shared_ptr<PlayedComm>, int>>>
      children;  // of split, by member: and place

  bool all_split(std::size_t number) const {
    return std::all_of(members.begin(), members.end(),
                       [&](const PlayedMember& member) { return member.splits.size() > number; });
  }

  void make_children() {
    while (all_split(children.size())) {
      const std::size_t number = children.size();
      children.emplace_back(members.size());
      std::vector<std::tuple<int, int, std::size_t>> order;
      for (std::size_t i = 0; i < members.size(); ++i)
        order.emplace_back(members[i].splits[number].first, members[i].splits[number].second, i);
      std::sort(order.begin(), order.end());
      for (std::size_t begin = 0; begin < order.size();) {
        std::size_t end = begin;
        std::vector<int> of_color;
        while (end < order.size() && std::get<0>(order[end]) == std::get<0>(order[begin]))
          of_color.push_back(ranks[std::get<2>(order[end++])]);
        if (std::get<0>(order[begin]) >= 0) {
          if (of_color.size() == 1) ++nccl.lonely_;
          const auto child = std::make_shared<PlayedComm>(nccl, of_color);
          for (std::size_t i = begin; i < end; ++i)
            children[number][std::get<2>(order[i])] = {child, static_cast<int>(i - begin)};
        }
        begin = end;
      }
    }
  }

  bool run_collective() {
    std::vector<const NcclRequest*> heads;
    for (const PlayedMember& member : members) {
      if (member.waiting.empty() || !is_collective(member.waiting.front().requests.front().operation))
        return false;
      heads.push_back(&member.waiting.front().requests.front());
    }
    const NcclRequest first = *heads.front();
    for (const NcclRequest* head : heads) {  // or it hangs, or does anything
      if (head->operation != first.operation || head->count != first.count || head->dtype != first.dtype)
        return false;
    }
    const auto n = static_cast<int>(members.size());
    std::vector<std::vector<std::byte>> inputs;  // members may read what others write
    std::vector<NcclRequest> copies;
    for (const NcclRequest* head : heads) {
      const std::size_t blocks = first.operation == NcclOperation::reduce_scatter ? members.size() : 1;
      inputs.emplace_back(head->from == nullptr ? 0 : blocks * bytes_of(first));
      if (head->from != nullptr) std::memcpy(inputs.back().data(), head->from, inputs.back().size());
      copies.push_back(*head);
      copies.back().from = inputs.back().data();
    }
    std::vector<const NcclRequest*> given;
    for (const NcclRequest& copy : copies) given.push_back(&copy);
    for (int place = 0; place < n; ++place) {
      std::byte* to = copies[static_cast<std::size_t>(place)].to;
      if (to == nullptr) continue;
      switch (first.operation) {
        case NcclOperation::all_reduce:
        case NcclOperation::reduce_scatter:
          fold_of_type(given, place, nccl.faults_.folds_by_rank);
          break;
        case NcclOperation::reduce:
          if (place == first.peer) fold_of_type(given, place, nccl.faults_.folds_by_rank);
          break;
        case NcclOperation::all_gather:
          for (std::size_t from = 0; from < inputs.size(); ++from)
            std::memcpy(to + from * bytes_of(first), inputs[from].data(), bytes_of(first));
          break;
        case NcclOperation::broadcast:
          std::memcpy(to, inputs[static_cast<std::size_t>(first.peer)].data(), bytes_of(first));
          break;
        default:
          CHECK(false);
      }
    }
    for (PlayedMember& member : members) pop(member);
    return true;
  }

  static void pop(PlayedMember& member) {
    member.waiting.pop_front();
    ++member.over;
  }

  /// The first request of a kind, not done, at the head of a member, for a peer.
  std::optional<std::size_t> pending(std::size_t member, NcclOperation operation, std::size_t peer) const {
    if (members[member].waiting.empty()) return std::nullopt;
    const PlayedGroup& group = members[member].waiting.front();
    for (std::size_t i = 0; i < group.requests.size(); ++i) {
      const NcclRequest& request = group.requests[i];
      if (!group.is_done[i] && request.operation == operation && request.peer == static_cast<int>(peer))
        return i;
    }
    return std::nullopt;
  }

  bool run_message() {
    for (std::size_t from = 0; from < members.size(); ++from) {
      for (std::size_t to = 0; to < members.size(); ++to) {
        const auto send = pending(from, NcclOperation::send, to);
        const auto recv = pending(to, NcclOperation::recv, from);
        if (!send || !recv) continue;
        PlayedGroup& given = members[from].waiting.front();
        PlayedGroup& got = members[to].waiting.front();
        const NcclRequest& sent = given.requests[*send];
        const NcclRequest& received = got.requests[*recv];
        if (bytes_of(sent) != bytes_of(received)) continue;  // it hangs, or does anything
        std::memcpy(received.to, sent.from, bytes_of(sent));
        given.is_done[*send] = got.is_done[*recv] = true;
        if (given.is_over()) pop(members[from]);
        if (&given != &got && got.is_over()) pop(members[to]);
        return true;
      }
    }
    return false;
  }

  bool run_copies() {
    bool ran = false;
    for (PlayedMember& member : members) {
      if (member.waiting.empty()) continue;
      PlayedGroup& group = member.waiting.front();
      for (std::size_t i = 0; i < group.requests.size(); ++i) {
        if (group.is_done[i] || group.requests[i].operation != NcclOperation::copy) continue;
        std::memmove(group.requests[i].to, group.requests[i].from, bytes_of(group.requests[i]));
        group.is_done[i] = true;
        ran = true;
      }
      if (group.is_over()) pop(member);
    }
    return ran;
  }

  void progress() {
    while (run_copies() || run_collective() || run_message()) {
    }
  }
};

class PlayedEvent : public gpu::NcclEvent {
 public:
  PlayedEvent(std::mutex& mutex, std::shared_ptr<PlayedComm> comm, std::size_t place)
      : mutex_(mutex), comm_(std::move(comm)), place_(place), position_(comm_->members[place].put) {}
  NcclState state() override {
    const std::lock_guard lock(mutex_);
    const bool is_over = comm_->members[place_].over >= position_;
    return {is_over ? NcclState::Kind::ready : NcclState::Kind::busy};
  }

 private:
  std::mutex& mutex_;
  std::shared_ptr<PlayedComm> comm_;
  std::size_t place_;
  std::int64_t position_;
};

class PlayedLink : public gpu::NcclLink {
 public:
  PlayedLink(PlayedNccl& nccl, std::shared_ptr<PlayedComm> comm, int place)
      : nccl_(nccl), comm_(std::move(comm)), place_(static_cast<std::size_t>(place)) {}
  PlayedLink(PlayedNccl& nccl, std::shared_ptr<PlayedComm> parent, std::size_t place_in_parent,
             std::size_t number)
      : nccl_(nccl), parent_(std::move(parent)), place_(place_in_parent), number_(number) {}

  NcclState state() override {
    const std::lock_guard lock(nccl_.mutex_);
    if (comm_ == nullptr) {
      if (parent_->children.size() <= number_) return {NcclState::Kind::busy};
      const auto [child, place] = parent_->children[number_][place_];
      comm_ = child;
      place_ = static_cast<std::size_t>(place);
    }
    const bool is_splitting = comm_->members[place_].splits.size() > comm_->children.size();
    return {is_splitting ? NcclState::Kind::busy : NcclState::Kind::ready};
  }

  void put(std::span<const NcclRequest> given) override {
    const std::lock_guard lock(nccl_.mutex_);
    ++nccl_.puts_;
    PlayedMember& member = comm_->members[place_];
    ++member.put;
    std::vector<NcclRequest> requests(given.begin(), given.end());
    const int rank = comm_->ranks[place_];
    if (nccl_.faults_.requests) nccl_.faults_.requests(rank, requests);
    if (requests.empty() || rank == nccl_.faults_.never_comes) return;
    const std::size_t count = requests.size();
    member.waiting.push_back({std::move(requests), std::vector<bool>(count, false)});
    comm_->progress();
  }

  std::unique_ptr<gpu::NcclEvent> mark() override {
    const std::lock_guard lock(nccl_.mutex_);
    return std::make_unique<PlayedEvent>(nccl_.mutex_, comm_, place_);
  }

  std::unique_ptr<gpu::NcclLink> split(int color, int key) override {
    const std::lock_guard lock(nccl_.mutex_);
    auto& splits = comm_->members[place_].splits;
    splits.emplace_back(color, key);
    const std::size_t number = splits.size() - 1;
    comm_->make_children();
    if (color < 0) return nullptr;
    return std::make_unique<PlayedLink>(nccl_, comm_, place_, number);
  }

  void begin_close() override {}

 private:
  PlayedNccl& nccl_;
  std::shared_ptr<PlayedComm> comm_;    // null: not made yet
  std::shared_ptr<PlayedComm> parent_;  // of one that is not
  std::size_t place_;
  std::size_t number_ = 0;
};

PlayedNccl::PlayedNccl(PlayedFaults faults) : faults_(std::move(faults)) {}
PlayedNccl::~PlayedNccl() = default;

std::vector<PlayedNccl::Outcome> PlayedNccl::run(const sim::Layout& layout, const gpu::NcclOptions& options,
                                                 const sim::RankProgram& program) {
  std::vector<int> ranks;
  for (int rank = 0; rank < layout.grid_size; ++rank) ranks.push_back(rank);
  const auto world = std::make_shared<PlayedComm>(*this, ranks);
  std::vector<Outcome> outcomes(ranks.size());
  const auto whole = std::make_shared<sim::CpuDevice>();  // its memory stays until all are over
  const auto one = [&](int rank) {
    Outcome& outcome = outcomes[static_cast<std::size_t>(rank)];
    const std::shared_ptr<sim::Device> device = whole->for_rank(rank);
    const auto recorder = std::make_shared<sim::Recorder>(100'000, [] {});
    gpu::NcclRun run{.traffic = {options.deadline, options.order, device.get(), {}},
                     .rank = rank,
                     .layout = layout,
                     .nodes = {},
                     .device = device,
                     .recorder = recorder};
    try {
      const sim::RunningDevice running(device.get());
      gpu::NcclGroups groups(
          run, layout.grid_size == 1 ? nullptr : std::make_unique<PlayedLink>(*this, world, rank));
      const sim::KeyedRandom random(0);
      sim::Rank own{rank, layout, *device, groups, random, *recorder};
      program(own);
      run.channels.front()->exchange({0});
    } catch (const sim::Error& error) {
      outcome.refused = error.refusal().code;
      outcome.words = error.what();
    }
    outcome.report = {.rank = rank, .published = recorder->take_published(), .calls = recorder->take_calls()};
    outcome.groups = run.groups;
  };
  std::vector<std::thread> threads;
  for (const int rank : ranks) threads.emplace_back(one, rank);
  for (std::thread& thread : threads) thread.join();
  return outcomes;
}

}  // namespace test
