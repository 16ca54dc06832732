#include "sim/comm/waiting.h"

#include <fmt/format.h>

#include "sim/base/error.h"
#include "sim/tensor/running_device.h"

namespace sim {

void require_waits_for_own(const Call& call, const Device* device) {
  if (running_device() == device) return;
  refuse({.code = "wrong_rank",
          .option = fmt::format("wait() for {} {}", name_of(call.operation), text_of(call.site)),
          .numbers = "the program that started this call is over",
          .rule = "a rank waits for its own calls, and only while its program runs",
          .hint = "wait() before the program ends, with a Work that does not leave its rank"});
}

void require_all_waited(const Recorder& recorder) {
  for (const CallRecord& call : recorder.calls()) {
    if (call.waited) continue;
    refuse({.code = "pending_work",
            .option = fmt::format("{} at {}, call {} of {}", name_of(call.operation), text_of(call.site),
                                  call.sequence, text_of(*call.group)),
            .numbers = "the call was started, and its rank never waited for it",
            .rule = "a rank waits for every call that it starts",
            .hint = "wait() before the program ends"});
  }
}

}  // namespace sim
