#include "sim/comm/call_log.h"

namespace sim {

namespace {

/// Whether two records differ in their sequence numbers and in their waits at most.
bool have_one_form(const CallRecord& a, const CallRecord& b) {
  return a.group == b.group && a.site.name == b.site.name && a.site.file == b.site.file &&
         a.site.line == b.site.line && a.count == b.count && a.bytes_inside == b.bytes_inside &&
         a.bytes_across == b.bytes_across && a.root_or_peer == b.root_or_peer && a.operation == b.operation &&
         a.dtype == b.dtype && a.reduce_op == b.reduce_op;
}

}  // namespace

bool& CallLog::add(const CallRecord& call) {
  if (forms_.empty()) forms_.reserve(4);
  std::uint32_t& known = known_[slot_of(*call.group, call.site, call.count)];
  if (known == 0 || !have_one_form(forms_[known - 1], call)) {
    forms_.emplace_back(call);
    known = static_cast<std::uint32_t>(forms_.size());
  }
  return add_entry(call.sequence, known - 1, call.continues_batch);
}

std::size_t CallLog::not_waited_for() const {
  std::size_t calls = 0;
  entries_.for_first(size(), [&](const Entry& entry) { calls += entry.waited ? 0U : 1U; });
  return calls;
}

}  // namespace sim
