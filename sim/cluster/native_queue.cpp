#include "sim/cluster/native_queue.h"

#include <utility>

#include "sim/cluster/exchange.h"
#include "sim/cluster/letter_agreement.h"

namespace sim {

void NativeQueue::ask(Mailbox& mailbox) {
  std::vector<std::shared_ptr<QueuedReduction>> left;
  for (auto& reduction : waiting_) {
    if (!mailbox.has(reduction->answers)) {
      left.push_back(std::move(reduction));
      continue;
    }
    for (const Letter& letter : mailbox.take_out(reduction->answers)) check_agreement(reduction->own, letter);
    reduction->request = reduction->group.start(native_reduction_of(reduction->call));
  }
  waiting_ = std::move(left);
}

}  // namespace sim
