#include "tests/gpu/played/played_nccl.h"

#include <thread>
#include <utility>

#include "gpu/nccl/nccl_communicator.h"
#include "sim/base/error.h"
#include "sim/cpu/cpu_device.h"
#include "sim/tensor/running_device.h"

namespace test {

using gpu::NcclRequest;
using gpu::NcclState;

class PlayedEvent : public gpu::NcclEvent {
 public:
  PlayedEvent(std::mutex& mutex, std::shared_ptr<PlayedComm> comm, std::size_t place)
      : mutex_(mutex), comm_(std::move(comm)), place_(place), position_(comm_->groups_put(place)) {}
  NcclState state() override {
    const std::lock_guard lock(mutex_);
    const bool is_over = comm_->groups_over(place_) >= position_;
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
  PlayedLink(PlayedNccl& nccl, std::shared_ptr<PlayedComm> comm, std::size_t place)
      : nccl_(nccl), comm_(std::move(comm)), place_(place) {}
  PlayedLink(PlayedNccl& nccl, std::shared_ptr<PlayedComm> parent, std::size_t place_in_parent,
             std::size_t number)
      : nccl_(nccl), parent_(std::move(parent)), place_(place_in_parent), number_(number) {}

  NcclState state() override {
    const std::lock_guard lock(nccl_.mutex_);
    if (comm_ == nullptr) {
      if (parent_->splits_over() <= number_) return {NcclState::Kind::busy};
      const PlayedComm::Child& child = parent_->child(number_, place_);
      comm_ = child.comm;
      place_ = child.place;
    }
    return {comm_->is_splitting(place_) ? NcclState::Kind::busy : NcclState::Kind::ready};
  }

  void put(std::span<const NcclRequest> given) override {
    const std::lock_guard lock(nccl_.mutex_);
    ++nccl_.puts_;
    std::vector<NcclRequest> requests(given.begin(), given.end());
    const int rank = comm_->rank_at(place_);
    if (nccl_.faults_.requests) nccl_.faults_.requests(rank, requests);
    if (rank == nccl_.faults_.never_comes) requests.clear();
    comm_->put(place_, std::move(requests));
  }

  std::unique_ptr<gpu::NcclEvent> mark() override {
    const std::lock_guard lock(nccl_.mutex_);
    return std::make_unique<PlayedEvent>(nccl_.mutex_, comm_, place_);
  }

  std::unique_ptr<gpu::NcclLink> split(int color, int key) override {
    const std::lock_guard lock(nccl_.mutex_);
    const std::size_t number = comm_->split(place_, color, key);
    if (color < 0) return nullptr;
    return std::make_unique<PlayedLink>(nccl_, comm_, place_, number);
  }

  void begin_close() override {}

 private:
  PlayedNccl& nccl_;
  std::shared_ptr<PlayedComm> comm_;    // null if it is not made yet
  std::shared_ptr<PlayedComm> parent_;  // used until the communicator is made
  std::size_t place_;
  std::size_t number_ = 0;
};

PlayedNccl::PlayedNccl(PlayedFaults faults)
    : faults_(std::move(faults)), rules_{.folds_by_rank = faults_.folds_by_rank} {}
PlayedNccl::~PlayedNccl() = default;

std::vector<PlayedNccl::Outcome> PlayedNccl::run(const sim::Layout& layout, const gpu::NcclOptions& options,
                                                 const sim::RankProgram& program) {
  std::vector<int> ranks;
  for (int rank = 0; rank < layout.grid_size; ++rank) ranks.push_back(rank);
  const auto world = std::make_shared<PlayedComm>(rules_, ranks);
  std::vector<Outcome> outcomes(ranks.size());
  const auto whole = std::make_shared<sim::CpuDevice>();  // its memory stays until all ranks are over
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
      gpu::NcclGroups groups(run, layout.grid_size == 1 ? nullptr
                                                        : std::make_unique<PlayedLink>(
                                                              *this, world, static_cast<std::size_t>(rank)));
      const sim::KeyedRandom random(0);
      sim::Rank own{rank, layout, *device, groups, random, *recorder};
      program(own);
      run.meet_at_end();
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
