#include "sim/mpi/native_queue.h"

#include <utility>

#include "sim/mpi/exchange.h"
#include "sim/mpi/letter_agreement.h"

namespace sim {

void NativeQueue::ask(Mailbox& mailbox) {
  for (auto next = waiting_.begin(); next != waiting_.end();) {
    if (!mailbox.has((*next)->answers)) {
      ++next;
      continue;
    }
    const std::shared_ptr<QueuedReduction> reduction = *next;
    next = waiting_.erase(next);
    for (const Letter& letter : mailbox.take_out(reduction->answers))
      require_agreement(reduction->own, letter);
    reduction->request = reduction->group.start(native_reduction_of(reduction->call));
  }
}

}  // namespace sim
