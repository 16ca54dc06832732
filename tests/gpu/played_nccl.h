#pragma once

/// A NCCL that this process plays: ranks are threads with CPU devices, and a communicator matches what its members put in as NCCL does,
/// each member's groups one after the other.
///
///   PlayedNccl nccl;
///   const std::vector<RankReport> reports = nccl.run(layout, options, program);   // or a refusal's code for a rank
///
/// Exact   sums are left folds in the order of a ring from each place to the next, element by element; written from NCCL's description,
///         with nothing of sim/comm/reduction_order.

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "gpu/nccl_library.h"
#include "gpu/nccl_options.h"
#include "sim/comm/rank.h"
#include "sim/comm/rank_report.h"

namespace test {

/// What goes wrong in it.
struct PlayedFaults {
  std::function<void(int rank, std::vector<gpu::NcclRequest>&)> requests =
      {};                      // may change what a rank puts in
  bool folds_by_rank = false;  // a ring that starts at place 0 for every element
  int never_comes = -1;        // a rank whose requests are never seen
};

struct PlayedComm;

class PlayedNccl {
 public:
  explicit PlayedNccl(PlayedFaults faults = {});
  ~PlayedNccl();

  struct Outcome {
    sim::RankReport report;
    std::string refused;  // "" or the code
    std::string words;    // of the refusal
    std::vector<std::shared_ptr<const sim::ProcessGroup>> groups;
  };
  /// By rank.
  std::vector<Outcome> run(const sim::Layout& layout, const gpu::NcclOptions& options,
                           const sim::RankProgram& program);
  /// As many groups of requests as were put in by all ranks.
  std::int64_t puts() const { return puts_; }
  /// Communicators of one member that were asked for.
  std::int64_t lonely() const { return lonely_; }

 private:
  friend struct PlayedComm;
  friend class PlayedLink;
  std::mutex mutex_;
  PlayedFaults faults_;
  std::int64_t puts_ = 0;
  std::int64_t lonely_ = 0;
};

}  // namespace test
