#pragma once

/// A communicator of real processes: every call is an exchange of letters between the members (letter.h),
/// over any wire.
///
/// Calls   letters leave when a call is made, before anybody waits; so started calls of any groups go on side
///         by side, and what does not deadlock on virtual ranks does not here. A send waits for its recv,
///         unless it has at most eager_bytes. With native reductions, letters of calls that MPI has are
///         without data, and it is asked when all have come and agree (native_queue.h). Groups of MPI are
///         made when all members are known to come at once: those of the layout, by all ranks in the order of
///         its kinds, before the program begins; others when the letters of their making have come.
/// Errors  those of mailbox.h and letter_agreement.h; split_size_mismatch; wrong_rank for a Work that left
///         its rank's program; mpi_failed.
/// Exact   reductions gather what all members give and fold it in the world's order, as virtual ranks do: the
///         same bits. With native reductions MPI does what it has (native_reductions.h: f64, f32, i32, in an
///         order of its own), and bf16 and the field, which are no types of MPI, stay as they were.

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "sim/comm/groups.h"
#include "sim/comm/reduction_order.h"
#include "sim/layout/layout.h"
#include "sim/layout/node_placement.h"
#include "sim/mpi/mailbox.h"
#include "sim/mpi/native_queue.h"
#include "sim/mpi/native_reductions.h"

namespace sim {

/// What all communicators of a program have in common, on one process.
struct ProcessRun {
  Mailbox& mailbox;
  std::uint32_t number;  // of the program
  int rank;
  std::chrono::milliseconds deadline;
  const Layout& layout;
  NodePlacement nodes;
  ReductionOrder reduction_order;
  std::int64_t eager_bytes;
  std::shared_ptr<Device> device;
  std::shared_ptr<Recorder> recorder;
  NativeReductions* native;  // null: all is folded
  NativeQueue native_queue;
  std::vector<std::shared_ptr<const ProcessGroup>> groups;  // for call records that outlive the program

  const ProcessGroup& add_group(std::string kind, int index, std::vector<int> members);
};

class MpiCommunicator : public Communicator {
 public:
  /// By all members at once, where reductions are native.
  MpiCommunicator(ProcessRun& run, const ProcessGroup& group);

  /// Of the world's communicator: a group that all ranks make together; null for a rank that is no member.
  std::unique_ptr<MpiCommunicator> new_group(std::string name, const std::vector<int>& members, Site site);

 private:
  std::unique_ptr<Pending> do_call(Call&& call) override;
  std::unique_ptr<Communicator> do_split(Call&& call) override;

  ProcessRun& run_;
  NativeGroup* native_;  // null: all is folded, or there is nobody else
};

/// The groups of a process, made when first asked for: that takes no word with others. Where reductions are
/// native it does: then they are made by all ranks at once, before the program begins.
class MpiGroups : public Groups {
 public:
  explicit MpiGroups(ProcessRun& run);
  Communicator& world() override { return world_; }
  Communicator& get(std::string_view kind) override;
  Communicator* find(std::string_view kind) override;
  Communicator* new_group(std::string name, const std::vector<int>& members, Site site) override;

 private:
  ProcessRun& run_;
  MpiCommunicator world_;
  std::map<std::string, std::unique_ptr<MpiCommunicator>, std::less<>> by_kind_;
  std::vector<std::unique_ptr<MpiCommunicator>> made_;
};

}  // namespace sim
