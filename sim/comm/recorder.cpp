#include "sim/comm/recorder.h"

#include <algorithm>
#include <fmt/format.h>
#include <utility>

#include "sim/base/error.h"
#include "sim/tensor/ops.h"
#include "sim/tensor/running_device.h"

namespace sim {

namespace {

void add_call(ContentHash& hash, const CallRecord& call, std::uint64_t group_and_site) {
  hash.add(group_and_site);
  hash.add(static_cast<std::uint64_t>(call.sequence));
  hash.add(static_cast<std::uint64_t>(call.count));
  hash.add(static_cast<std::uint64_t>(call.operation) | static_cast<std::uint64_t>(call.dtype) << 8 |
           static_cast<std::uint64_t>(call.reduce_op) << 16 |
           static_cast<std::uint64_t>(static_cast<std::uint32_t>(call.root_or_peer)) << 32);
}

}  // namespace

void add_calls(ContentHash& hash, std::span<const CallRecord> calls) {
  const CallRecord* previous = nullptr;
  std::uint64_t names = 0;
  for (const CallRecord& call : calls) {
    if (previous == nullptr || previous->group != call.group || previous->site.name != call.site.name) {
      ContentHash of_names;
      of_names.add(std::string_view(call.group->kind));
      of_names.add(static_cast<std::uint64_t>(call.group->index));
      of_names.add(std::string_view(call.site.name));
      names = of_names.value();
    }
    previous = &call;
    add_call(hash, call, names);
  }
}

/// Folds the records before the latest ones, up to the first call that nobody has waited for. The next
/// attempt comes when there are twice as many records as are left.
void Recorder::fold_earlier() {
  const auto last = calls_.end() - static_cast<std::ptrdiff_t>(kept_calls_);
  const auto end = std::find_if(calls_.begin(), last, [](const CallRecord& call) { return !call.waited; });
  add_calls(folded_.hash, {calls_.begin(), end});
  std::for_each(calls_.begin(), end, [&](const CallRecord& call) { folded_.ledger.add(call); });
  folded_.count += end - calls_.begin();
  calls_.erase(calls_.begin(), end);
  room_ = 2 * std::max(kept_calls_, calls_.size());
}

bool Recorder::has_call_in(const ProcessGroup& group) const {
  return folded_.ledger.has_call_in(group) ||
         std::any_of(calls_.begin(), calls_.end(),
                     [&](const CallRecord& call) { return call.group == &group; });
}

void Recorder::publish(std::string name, const Tensor& tensor) {
  const bool has_elements = tensor.is_none() || tensor.device().has_elements(tensor.dtype());
  std::vector<std::byte> values = has_elements ? host_bytes(tensor) : std::vector<std::byte>();
  const std::size_t bytes = sizeof(Published) + name.size() + values.size();
  if (std::cmp_greater(bytes, publish_limit_ - published_bytes_)) refuse_more_published(name, tensor.bytes());
  published_bytes_ += static_cast<std::int64_t>(bytes);
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

void Recorder::refuse_more(const CallRecord& call) {
  if (++refusals_ > kMostRefusals) give_up_();
  refuse({.code = "call_limit",
          .option = text_of(call.site),
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
