#include "sim/meeting/connection.h"

#include <array>
#include <cstddef>

#include "sim/meeting/rank_messages.h"

namespace sim {

Incoming Connection::receive() {
  while (true) {
    ParsedFrame parsed = parse_frame(incoming_, kMostBody);
    if (auto* frame = std::get_if<Frame>(&parsed)) {
      const std::size_t used = kFrameHeader + frame->body.size();
      incoming_.erase(incoming_.begin(), incoming_.begin() + static_cast<std::ptrdiff_t>(used));
      return std::move(*frame);
    }
    if (auto* none = std::get_if<NoFrame>(&parsed)) return std::move(*none);
    // The buffer takes no more than the bytes of one frame. The rest stays in the network, and flow control
    // then stops the sender.
    std::array<std::byte, kFrameHeader + kMostBody> buffer;
    const std::span<std::byte> room(buffer.data(), buffer.size() - incoming_.size());
    const Moved moved = receive_some(socket_, room);
    if (moved.has_ended) return Ended{!incoming_.empty()};
    if (moved.count == 0) return NeedMore{};
    incoming_.insert(incoming_.end(), buffer.begin(),
                     buffer.begin() + static_cast<std::ptrdiff_t>(moved.count));
  }
}

void Connection::send(const Frame& frame) {
  const Bytes bytes = encoded_frame(frame);
  outgoing_.insert(outgoing_.end(), bytes.begin(), bytes.end());
  flush();
}

void Connection::flush() {
  while (!outgoing_.empty()) {
    const Moved moved = send_some(socket_, outgoing_);
    if (moved.has_ended) outgoing_.clear();
    if (moved.count == 0) return;
    outgoing_.erase(outgoing_.begin(), outgoing_.begin() + static_cast<std::ptrdiff_t>(moved.count));
  }
}

pollfd Connection::interest() const {
  const int events = has_to_send() ? POLLIN | POLLOUT : POLLIN;
  return {socket_.descriptor(), static_cast<short>(events), 0};
}

}  // namespace sim
