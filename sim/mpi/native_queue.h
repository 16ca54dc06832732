#pragma once

/// The reductions of this process that MPI is yet to be asked for. It is asked when all members have come to
/// a call and agree: what members disagree on never reaches MPI, which may do anything then.
///
/// Calls   ask() in every wait of the process, whatever it waits for: so no rank waits because another is
///         busy with another group. Those of a group are asked for in the order of its calls: of one rank,
///         letters of a later call come later.
/// Errors  those of letter_agreement.h; mpi_failed.

#include <memory>
#include <vector>

#include "sim/mpi/letter.h"
#include "sim/mpi/mailbox.h"
#include "sim/mpi/native_reductions.h"

namespace sim {

struct QueuedReduction {
  Call call;
  Letter own;                      // of this rank
  std::vector<LetterKey> answers;  // of all others
  NativeGroup& group;
  std::unique_ptr<NativeRequest> request = nullptr;  // null: MPI was not asked yet
};

class NativeQueue {
 public:
  void add(std::shared_ptr<QueuedReduction> reduction) { waiting_.push_back(std::move(reduction)); }
  void ask(Mailbox& mailbox);

 private:
  std::vector<std::shared_ptr<QueuedReduction>> waiting_;
};

}  // namespace sim
