#include "sim/comm/recorder.h"

#include <fmt/format.h>
#include <utility>

#include "sim/base/error.h"
#include "sim/tensor/ops.h"
#include "sim/tensor/running_device.h"

namespace sim {

void Recorder::publish(std::string name, const Tensor& tensor) {
  std::vector<std::byte> values = host_bytes(tensor);
  const std::size_t bytes = sizeof(Published) + name.size() + values.size();
  if (std::cmp_greater(bytes, publish_limit_ - published_bytes_)) refuse_more_published(name, tensor.bytes());
  published_bytes_ += static_cast<std::int64_t>(bytes);
  published_.push_back({std::move(name), tensor.dtype(), tensor.shape(), std::move(values)});
}

void Recorder::keep_moments(const Device& device) {
  if (device.work() != nullptr) counting_ = &device;
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
