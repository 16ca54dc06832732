#include "gpu/nccl/nccl_cluster.h"

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <fmt/format.h>
#include <memory>
#include <thread>
#include <utility>

#include "sim/base/content_hash.h"
#include "sim/base/deadline.h"
#include "sim/base/error.h"
#include "sim/base/printable_text.h"
#include "sim/comm/refusal_limit.h"
#include "sim/comm/waiting.h"
#include "sim/launch/process_world.h"
#include "sim/meeting/rendezvous.h"
#include "sim/tensor/running_device.h"

namespace gpu {

namespace {

constexpr int kBrokenContract = 3;  // the exit code, which is that of the program too

std::uint64_t configuration_of(const NcclClusterSpec& spec) {
  sim::ContentHash hash;
  hash.add(spec.configuration);
  hash.add(std::string_view(text_of(spec.options)));
  hash.add(std::uint64_t{spec.mode == GpuMode::vendor});
  return hash.value();
}

/// Opens NCCL, and sets its environment before its first call.
std::unique_ptr<NcclLibrary> opened(const NcclClusterSpec& spec) {
  check(spec.options);
  std::unique_ptr<NcclLibrary> library = spec.open();
  set_environment(nccl_environment(spec.options, spec.launch.rank, library->version()));
  return library;
}

/// The world's link, lent to the groups of one program. Closing it does not close the world's link, which
/// outlives the groups.
class Borrowed : public NcclLink {
 public:
  explicit Borrowed(NcclLink& link) : link_(link) {}
  NcclState state() override { return is_closed_ ? NcclState() : link_.state(); }
  void put(std::span<const NcclRequest> requests) override { link_.put(requests); }
  std::unique_ptr<NcclEvent> mark() override { return link_.mark(); }
  std::unique_ptr<NcclLink> split(int color, int key) override { return link_.split(color, key); }
  void begin_close() override { is_closed_ = true; }

 private:
  NcclLink& link_;
  bool is_closed_ = false;
};

}  // namespace

template <typename Work>
auto NcclCluster::ended_by_errors(const Work& work) -> decltype(work()) {
  try {
    return work();
  } catch (const sim::Error& error) {
    end_all(sim::text_of(error.refusal()), kBrokenContract);
  } catch (const std::exception& error) {
    end_all(fmt::format("rank_threw: an exception left the program: {}\n", sim::printable_text(error.what())),
            kBrokenContract);
  }
}

NcclCluster::NcclCluster(NcclClusterSpec spec) : spec_(std::move(spec)), library_(opened(spec_)) {
  const sim::Launch& launch = spec_.launch;
  sim::RendezvousSpec meeting_spec = {.rank = launch.rank,
                                      .world_size = launch.world_size,
                                      .master_addr = launch.master_addr,
                                      .master_port = launch.master_port,
                                      .program_version = spec_.program_version,
                                      .configuration = configuration_of(spec_),
                                      .payload = {},
                                      .deadline = spec_.options.deadline};
  if (launch.rank == 0 && launch.world_size > 1) meeting_spec.payload = library_->unique_id();
  rendezvous_ = std::make_unique<sim::Rendezvous>(std::move(meeting_spec));
  const sim::Meeting meeting = rendezvous_->meet();
  const int local_rank = launch.local ? launch.local->rank : meeting.local_rank;
  device_ = library_->open_device(local_rank, launch.rank, spec_.mode);
  if (launch.world_size == 1) return;
  ended_by_errors([&] {
    world_ = library_->open(meeting.payload, launch.rank, launch.world_size);
    await_world("making the world");
  });
}

void NcclCluster::await_world(const char* what) {
  const NcclTraffic traffic{spec_.options.deadline, spec_.options.order, device_.get(), {}};
  traffic.await([this] { return world_->state(); },
                [&] { return fmt::format("rank {}, {} of {}", rank(), what, spec_.launch.world_size); });
}

/// If one rank reaches its deadline, others do so a little later, and their messages may say more about which
/// rank is at fault. So this rank gives them time before it ends.
void NcclCluster::end_all(const std::string& text, int exit_code) {
  constexpr std::chrono::milliseconds kForOthers{500};
  constexpr std::chrono::milliseconds kForNccl{5'000};
  const std::string line = fmt::format("rank {}: {}", rank(), text);
  std::fputs(line.c_str(), stderr);
  std::fflush(stderr);
  std::this_thread::sleep_for(kForOthers);
  // Even abort() may never return, so it runs on another thread.
  const auto is_over = std::make_shared<std::atomic<bool>>(false);
  std::thread([library = library_.get(), is_over] {
    library->abort();
    *is_over = true;
  }).detach();
  const sim::Deadline limit = sim::Deadline::after(kForNccl);
  while (!*is_over && !limit.has_passed()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  std::_Exit(exit_code);
}

/// Runs the program. An error is reported, and ends the process, while the communicators still exist, because
/// their destruction may never end.
sim::ProcessReport NcclCluster::run(const sim::ClusterWorld& world, const sim::RankProgram& program) {
  const auto recorder = std::make_shared<sim::Recorder>(world.call_limit, [this] {
    end_all("rank_will_not_end: it catches call_limit and goes on calling\n", kBrokenContract);
  });
  NcclRun run{.traffic = {spec_.options.deadline, spec_.options.order, device_.get(), {}},
              .rank = rank(),
              .layout = world.layout,
              .nodes = world.nodes,
              .device = device_,
              .recorder = recorder};
  return ended_by_errors([&] {
    sim::require_processes(world.layout, spec_.launch);
    try {
      const sim::RunningDevice running(device_.get());
      sim::RefusalLimit limit(*recorder, world.call_limit, [this](const sim::Refusal& latest) {
        end_all(fmt::format("rank_will_not_end: {}\n", sim::sentence_of_refusals(latest)), kBrokenContract);
      });
      const sim::WatchedRefusals watched_refusals(&limit);
      const sim::KeyedRandom random(world.seed);
      NcclGroups groups(run, world_ == nullptr ? nullptr : std::make_unique<Borrowed>(*world_));
      sim::Rank own{rank(), world.layout, *device_, groups, random, *recorder};
      program(own);
      sim::require_all_waited(*recorder);
      run.meet_at_end();
    } catch (...) {
      if (world.on_broken_run)
        world.on_broken_run({.rank = rank(), .published = {}, .calls = recorder->calls()});
      throw;
    }
    run.close();
    return sim::ProcessReport{
        {.rank = rank(), .published = recorder->take_published(), .calls = recorder->take_calls()},
        std::move(run.groups)};
  });
}

sim::Conclusion NcclCluster::finish(const sim::Report& report) {
  sim::Conclusion conclusion = rendezvous_->finish(report);
  if (conclusion.failure) end_all(sim::text_of(*conclusion.failure), kBrokenContract);
  return conclusion;
}

void NcclCluster::close() {
  if (world_ == nullptr) return;
  ended_by_errors([&] {
    world_->begin_close();
    await_world("closing the world");
  });
  world_.reset();
}

}  // namespace gpu
