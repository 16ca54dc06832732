#pragma once

/// A NCCL that this process plays: ranks are threads with CPU devices, on communicators of played_comm.h.
///
///   PlayedNccl nccl;
///   const std::vector<PlayedNccl::Outcome> outcomes = nccl.run(layout, options, program);

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
    std::string refused;  // the code of the refusal, or ""
    std::string words;    // the text of the refusal
    std::vector<std::shared_ptr<const sim::ProcessGroup>> groups;
  };
  /// Runs the program on all ranks of the layout. Returns the outcomes by rank.
  std::vector<Outcome> run(const sim::Layout& layout, const gpu::NcclOptions& options,
                           const sim::RankProgram& program);
  /// The number of groups of requests that all ranks put in.
  std::int64_t puts() const { return puts_; }
  /// The number of communicators of one member that were asked for.
  std::int64_t lonely() const { return rules_.lonely; }

 private:
  friend class PlayedLink;
  std::mutex mutex_;
  PlayedFaults faults_;
  PlayedRules rules_;
  std::int64_t puts_ = 0;
};

}  // namespace test
