#include "sim/mpi/cluster.h"

#include <cstdio>
#include <cstdlib>
#include <fmt/format.h>
#include <thread>
#include <utility>

#include "sim/base/error.h"
#include "sim/base/exception_text.h"
#include "sim/base/printable_text.h"
#include "sim/comm/refusal_limit.h"
#include "sim/comm/refused_elsewhere.h"
#include "sim/comm/waiting.h"
#include "sim/mpi/mpi_communicator.h"
#include "sim/tensor/running_device.h"

namespace sim {

namespace {

// These exit codes are the same as those of the program.
constexpr int kRefused = 2;
constexpr int kBrokenContract = 3;

RendezvousSpec rendezvous_spec(const ClusterSpec& spec) {
  return {.rank = spec.launch.rank,
          .world_size = spec.launch.world_size,
          .master_addr = spec.launch.master_addr,
          .master_port = spec.launch.master_port,
          .program_version = spec.program_version,
          .configuration = spec.configuration,
          .payload = {},
          .deadline = spec.deadline};
}

}  // namespace

Cluster::Cluster(ClusterSpec spec) : spec_(std::move(spec)), rendezvous_(rendezvous_spec(spec_)) {
  rendezvous_.meet();
  {
    const Watch watch(watched("the start of MPI"));
    wire_ = spec_.open_wire();
  }
  mailbox_ = std::make_unique<Mailbox>(*wire_, spec_.deadline);
  require_wire();
}

void Cluster::require_wire() {
  const Launch& told = spec_.launch;
  if (wire_->rank() == told.rank && wire_->size() == told.world_size) return;
  end_all(
      text_of(Refusal{.code = "launch_contradiction",
                      .option = told.launcher,
                      .numbers = fmt::format("the launcher says rank {} of {}, and MPI says rank {} of {}",
                                             told.rank, told.world_size, wire_->rank(), wire_->size()),
                      .rule = "the launcher and MPI give a process the same rank and world size",
                      .hint = "use one launcher: mpirun, or srun with its MPI plugin"}),
      kRefused);
}

/// If one rank waits until its deadline, others often do too. They reach their deadlines a little later, and
/// their messages may say more about the cause, so this process gives them some time before it aborts.
void Cluster::end_all(const std::string& text, int exit_code) {
  constexpr std::chrono::milliseconds kForOthers{500};
  const std::string line = fmt::format("rank {}: {}", rank(), text);
  std::fputs(line.c_str(), stderr);
  std::fflush(stderr);
  std::this_thread::sleep_for(kForOthers);
  wire_->abort(exit_code);
  std::_Exit(exit_code);  // Compilers do not see that a virtual function never returns.
}

/// Checks that this rank has no pending calls, and that no letters for it are left when all programs have
/// ended.
void Cluster::end_program(const ProcessRun& run) {
  require_all_waited(*run.recorder);
  for (int to = 0; to < wire_->size(); ++to) {
    if (to != rank()) mailbox_->send(to, {.key = {rank(), run.number, "", LetterKind::ended, 0}});
  }
  const std::vector<Letter> rest =
      mailbox_->take_rest(run.number, rank(), fmt::format("rank {} at the end of its program", rank()));
  if (rest.empty()) return;
  const Letter& first = rest.front();
  refuse({.code = "unmatched_send",
          .option = fmt::format("call {} of {}", first.key.sequence, first.key.group),
          .numbers = fmt::format("{} of rank {} at '{}' ({}:{})", name_of(first.operation), first.key.from,
                                 first.site, first.file, first.line),
          .rule = "the program of a rank receives all messages that are sent to it",
          .hint = "look for the recv that this rank skips, or remove the send"});
}

ProcessReport Cluster::run_program(const ClusterWorld& world, Device& device, const RankProgram& program) {
  const auto recorder = std::make_shared<Recorder>(world.call_limit, [this] {
    end_all("rank_will_not_end: its program catches call_limit and makes more calls\n", kBrokenContract);
  });
  ProcessRun run{.mailbox = *mailbox_,
                 .number = runs_++,
                 .rank = rank(),
                 .layout = world.layout,
                 .nodes = world.nodes,
                 .reduction_order = world.reduction_order,
                 .eager_bytes = world.eager_bytes,
                 .device = device.for_rank(rank()),
                 .recorder = recorder,
                 .groups = {}};
  const KeyedRandom random(world.seed);
  try {
    const RunningDevice running(run.device.get());
    RefusalLimit limit(*recorder, world.call_limit, [this](const Refusal& latest) {
      end_all(fmt::format("rank_will_not_end: {}\n", sentence_of_refusals(latest)), kBrokenContract);
    });
    const WatchedRefusals watched_refusals(&limit);
    MpiGroups groups(run);
    Rank own{rank(), world.layout, *run.device, groups, random, *recorder};
    program(own);
    end_program(run);
  } catch (...) {
    if (world.on_broken_run)
      world.on_broken_run({.rank = rank(), .published = {}, .calls = recorder->calls()});
    throw;
  }
  return {{.rank = rank(), .published = recorder->take_published(), .calls = recorder->take_calls()},
          std::move(run.groups)};
}

ProcessReport Cluster::run(const ClusterWorld& world, Device& device, const RankProgram& program) {
  try {
    require_processes(world.layout, spec_.launch);
    return run_program(world, device, program);
  } catch (const RefusedElsewhere& error) {
    constexpr std::chrono::milliseconds kForTheReason{250};  // less than what end_all() gives the others
    std::this_thread::sleep_for(kForTheReason);
    end_all(text_of(error.refusal()), kBrokenContract);
  } catch (const Error& error) {
    end_all(text_of(error.refusal()), kBrokenContract);
  } catch (const std::exception& error) {
    end_all(fmt::format("rank_threw: an exception left the program: {}\n", printable_text(text_of(error))),
            kBrokenContract);
  }
}

Conclusion Cluster::finish(const Report& report) {
  Conclusion conclusion = rendezvous_.finish(report);
  if (conclusion.failure) end_all(text_of(*conclusion.failure), kBrokenContract);
  return conclusion;
}

void Cluster::close() {
  const Watch watch(watched("the end of MPI"));
  wire_->close();
}

}  // namespace sim
