#pragma once

/// A communicator between real processes. Every call is an exchange of letters between the members
/// (letter.h), over any wire.
///
/// Calls   a call sends its letters when it is made, before it waits. Started calls of all groups therefore
///         proceed side by side, and a program that does not deadlock on virtual ranks does not deadlock
///         here. A send waits for its recv, unless its tensor has at most eager_bytes. Making a group needs
///         no communication.
/// Errors  the codes of mailbox.h and letter_agreement.h; split_size_mismatch; wrong_rank for a Work that
///         left its rank's program.
/// Exact   a reduction gathers the inputs of all members and folds them in the world's order, as virtual
///         ranks do, so its bits are the same.

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "sim/comm/groups.h"
#include "sim/comm/reduction_order.h"
#include "sim/layout/layout.h"
#include "sim/layout/node_placement.h"
#include "sim/mpi/mailbox.h"

namespace sim {

/// The state that all communicators of one program share on one process.
struct ProcessRun {
  Mailbox& mailbox;
  std::uint32_t number;  // number of the program
  int rank;
  const Layout& layout;
  NodePlacement nodes;
  ReductionOrder reduction_order;
  std::int64_t eager_bytes;
  std::shared_ptr<Device> device;
  std::shared_ptr<Recorder> recorder;
  std::vector<std::shared_ptr<const ProcessGroup>>
      groups;  // shared, because call records outlive the program

  const ProcessGroup& add_group(std::string kind, int index, std::vector<int> members);
};

class MpiCommunicator : public Communicator {
 public:
  MpiCommunicator(ProcessRun& run, const ProcessGroup& group);

  /// Makes a new group. It may be called on the world's communicator only, and by all ranks. Returns null on
  /// ranks that are not members of the new group.
  std::unique_ptr<MpiCommunicator> new_group(std::string name, const std::vector<int>& members, Site site);

 private:
  std::unique_ptr<Pending> do_call(Call&& call) override;
  std::unique_ptr<Communicator> do_split(Call&& call) override;

  ProcessRun& run_;
};

/// The groups of a process. A group is made when it is first asked for.
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
