#include "sim/comm/recorder.h"

#include <algorithm>
#include <fmt/format.h>
#include <utility>

#include "sim/base/error.h"
#include "sim/comm/ring_traffic.h"
#include "sim/tensor/ops.h"
#include "sim/tensor/plain_nan.h"
#include "sim/tensor/running_device.h"

namespace sim {

namespace {

/// Returns a hash of what the calls of one form have in common.
std::uint64_t hash_of(const CallRecord& form) {
  ContentHash hash;
  hash.add(std::string_view(form.group->kind));
  hash.add(static_cast<std::uint64_t>(form.group->index));
  hash.add(std::string_view(form.site.name));
  hash.add(static_cast<std::uint64_t>(form.count));
  hash.add(static_cast<std::uint64_t>(form.operation) | static_cast<std::uint64_t>(form.dtype) << 8 |
           static_cast<std::uint64_t>(form.reduce_op) << 16 |
           static_cast<std::uint64_t>(static_cast<std::uint32_t>(form.root_or_peer)) << 32);
  return hash.value();
}

}  // namespace

void add_calls(ContentHash& hash, const CallLog& calls, std::size_t count) {
  thread_local std::vector<std::uint64_t> forms;  // the memory of one log serves for the next
  forms.clear();
  for (const CallRecord& form : calls.forms()) forms.push_back(hash_of(form));
  calls.for_first(count, [&](std::size_t form, std::int64_t sequence) {
    hash.add(forms[form]);
    hash.add(static_cast<std::uint64_t>(sequence));
  });
}

bool& Recorder::add_form(const Call& call, const ProcessGroup& group, int place) {
  const Traffic traffic = group.size() == 1 ? Traffic() : traffic_of(call, group, place);
  return calls_.add({&group, call.site, call.sequence, call.count, traffic.bytes_inside, traffic.bytes_across,
                     root_or_peer_of(call), call.operation, call.dtype, call.reduce_op, false,
                     call.continues_batch});
}

/// Refuses a call beyond the limit, and otherwise folds the records of earlier calls.
void Recorder::make_room(const Site& site) {
  if (number_of_calls() >= call_limit_) refuse_more(site);
  if (calls_.size() >= wanted_room_) fold_earlier();
  const std::int64_t left = call_limit_ - folded_.count;
  room_ = std::min(wanted_room_, static_cast<std::size_t>(left));
}

/// Folds the records before the latest ones, up to the first call that nobody has waited for. The next
/// attempt comes when there are twice as many records as are left.
void Recorder::fold_earlier() {
  const std::size_t last = calls_.size() - kept_calls_;
  std::size_t end = 0;
  while (end < last && calls_.was_waited_for(end)) ++end;
  add_calls(folded_.hash, calls_, end);
  folded_.ledger.add(calls_, end);
  folded_.count += static_cast<std::int64_t>(end);
  calls_.remove_first(end);
  // Where forms seldom come again, those of the removed calls would take up more and more memory.
  constexpr std::size_t kFewForms = 64;
  if (calls_.forms().size() > kFewForms + 2 * calls_.size()) {
    CallLog kept;
    for (const CallRecord& call : calls_) kept.push_back(call);
    calls_ = std::move(kept);
  }
  wanted_room_ = 2 * std::max(kept_calls_, calls_.size());
}

bool Recorder::has_call_in(const ProcessGroup& group) const {
  const auto forms = calls_.forms();
  return folded_.ledger.has_call_in(group) ||
         std::any_of(forms.begin(), forms.end(),
                     [&](const CallRecord& form) { return form.group == &group; });
}

void Recorder::publish(std::string name, const Tensor& tensor) {
  const bool has_elements = tensor.is_none() || tensor.device().has_elements(tensor.dtype());
  std::vector<std::byte> values = has_elements ? host_bytes(tensor) : std::vector<std::byte>();
  make_nans_plain(tensor.dtype(), values);
  const std::size_t bytes = sizeof(Published) + name.size() + values.size();
  if (std::cmp_greater(bytes, publish_limit_ - published_bytes_)) refuse_more_published(name, tensor.bytes());
  published_bytes_ += static_cast<std::int64_t>(bytes);
  if (published_.empty()) published_.reserve(4);
  published_.push_back({std::move(name), tensor.dtype(), tensor.shape(), std::move(values)});
}

void Recorder::keep_moments(const Device& device) {
  if (device.work() != nullptr && kept_calls_ == 0) counting_ = &device;
}

/// Adds a moment only while this rank's own program runs. It adds none after the run, and none when another
/// rank waits on a Work of this rank, a wait that is refused.
void Recorder::add_moment(MomentKind kind, std::size_t record) {
  if (running_device() == counting_) moments_.push_back({kind, record, *counting_->work()});
}

void Recorder::refuse_more(const Site& site) {
  if (++refusals_ > kMostRefusals) give_up_();
  refuse({.code = "call_limit",
          .option = text_of(site),
          .numbers = fmt::format("one rank made more than {} calls", call_limit_),
          .rule = "a rank program comes to an end",
          .hint = "a higher call limit, if the program is meant to run this long"});
}

/// Drops the tensors that the rank has published, so that other ranks of the machine can continue, and
/// refuses.
void Recorder::refuse_more_published(const std::string& name, std::int64_t bytes) {
  published_ = {};
  published_bytes_ = publish_limit_;
  if (++refusals_ > kMostRefusals) give_up_();
  refuse({.code = "out_of_memory",
          .option = "publish",
          .numbers = fmt::format("'{}' has {} bytes, and one rank may publish {} bytes in all", name, bytes,
                                 publish_limit_),
          .rule = "the tensors that ranks publish stay in the memory of this machine",
          .hint = "fewer or smaller tensors; WorldSpec::publish_limit, if so much is meant"});
}

}  // namespace sim
