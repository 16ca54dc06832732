#pragma once

/// A NCCL that this process plays: ranks are threads with CPU devices, on communicators of played_comm.h.
///
///   PlayedNccl nccl;
///   const std::vector<RankReport> reports = nccl.run(layout, options, program);   // or a refusal's code for
///   a rank

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "gpu/nccl/nccl_options.h"
#include "sim/comm/rank.h"
#include "sim/comm/rank_report.h"
#include "tests/gpu/played/played_comm.h"
#include "tests/gpu/played/played_faults.h"

namespace test {

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
  std::int64_t lonely() const { return rules_.lonely; }

 private:
  friend class PlayedLink;
  std::mutex mutex_;
  PlayedFaults faults_;
  PlayedRules rules_;
  std::int64_t puts_ = 0;
};

}  // namespace test
