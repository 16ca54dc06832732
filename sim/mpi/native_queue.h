#pragma once

/// The reductions of this process that have not been started in MPI yet. A reduction is started when all
/// members have made the call and agree. Calls on which members disagree never reach MPI, whose
/// behaviour would then be undefined.
///
/// Calls   every wait of the process calls ask(), whatever it waits for, so that no rank waits because
///         another is busy with another group. The reductions of a group are started in the order of its
///         calls, because the letters of one rank arrive in the order of its calls.
/// Errors  the codes of letter_agreement.h; mpi_failed.

#include <memory>
#include <vector>

#include "sim/mpi/letter.h"
#include "sim/mpi/mailbox.h"
#include "sim/mpi/native_reductions.h"

namespace sim {

struct QueuedReduction {
  Call call;
  Letter own;                      // the letter of this rank
  std::vector<LetterKey> answers;  // the keys of the letters of all other members
  NativeGroup& group;
  std::unique_ptr<NativeRequest> request = nullptr;  // null until the reduction is started in MPI
};

class NativeQueue {
 public:
  void add(std::shared_ptr<QueuedReduction> reduction) { waiting_.push_back(std::move(reduction)); }
  /// Starts the reductions whose letters have all arrived.
  void ask(Mailbox& mailbox);

 private:
  std::vector<std::shared_ptr<QueuedReduction>> waiting_;
};

}  // namespace sim
