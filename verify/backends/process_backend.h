#pragma once

/// The common part of the backends whose ranks are processes: this process is one rank, and a cluster of
/// either engine runs its programs.
///
/// Shapes  Cluster is sim::Cluster or a class with the same calls.

#include <utility>

#include "sim/launch/process_world.h"
#include "verify/backends/backend.h"

namespace verify {

template <typename Cluster>
class ProcessBackend : public Backend {
 public:
  template <typename Spec>
  ProcessBackend(BackendRequest request, Spec&& spec)
      : request_(std::move(request)), cluster_(std::forward<Spec>(spec)) {}

  bool ranks_are_processes() const override { return true; }
  int rank() const override { return request_.choice.launch.rank; }
  int processes() const override { return request_.choice.launch.world_size; }
  sim::Conclusion finish(const sim::Report& report) override { return cluster_.finish(report); }
  void close() override { cluster_.close(); }
  [[noreturn]] void end_all(const std::string& text, int exit_code) override {
    cluster_.end_all(text, exit_code);
  }

 protected:
  static RanksHere own_rank(sim::ProcessReport report) {
    return {{std::move(report.rank)}, {report.kept.begin(), report.kept.end()}, ""};
  }

  BackendRequest request_;
  Cluster cluster_;
};

}  // namespace verify
