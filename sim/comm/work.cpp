#include "sim/comm/work.h"

#include <utility>

namespace sim {

Work& Work::operator=(Work&& other) noexcept {
  if (this == &other) return *this;
  drop();
  started_ = std::move(other.started_);
  other.started_.clear();
  return *this;
}

Work::~Work() { drop(); }

void Work::drop() {
  for (Started& call : started_) {
    if (call.pending != nullptr) call.recorder->keep(std::move(call.pending));
  }
  started_.clear();
}

void Work::wait() {
  for (Started& call : started_) {
    call.recorder->wait_begins(call.record);
    if (call.pending != nullptr) call.pending->wait();
    call.pending = nullptr;
    land(call.input, call.output);
    call.recorder->set_waited(call.record);
    call.input = call.output = Tensor();
  }
  started_.clear();
}

void take_off(const Tensor& input, const Tensor& output, const Site& site) {
  if (!input.is_none()) input.storage().take_off(input.range(), Access::read, site);
  if (!output.is_none()) output.storage().take_off(output.range(), Access::write, site);
}

void land(const Tensor& input, const Tensor& output) {
  if (!input.is_none()) input.storage().land(input.range(), Access::read);
  if (!output.is_none()) output.storage().land(output.range(), Access::write);
}

}  // namespace sim
