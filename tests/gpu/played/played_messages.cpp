#include "tests/gpu/played/played_messages.h"

#include <array>
#include <cstddef>

namespace test {

namespace {

constexpr std::size_t kHeader = 9;

}  // namespace

void PlayedConnection::send(const PlayedMessage& message) {
  sim::ByteWriter header;
  header.number(message.body.size(), 4);
  header.number(static_cast<std::uint64_t>(message.word), 1);
  header.number(message.link, 4);
  const sim::Bytes bytes = header.take();
  outgoing_.insert(outgoing_.end(), bytes.begin(), bytes.end());
  outgoing_.insert(outgoing_.end(), message.body.begin(), message.body.end());
  flush();
}

void PlayedConnection::flush() {
  while (sent_ < outgoing_.size()) {
    const Moved moved = send_some(socket_, std::span(outgoing_).subspan(sent_));
    if (moved.has_ended) break;
    if (moved.count == 0) return;
    sent_ += moved.count;
  }
  outgoing_.clear();
  sent_ = 0;
}

void PlayedConnection::take_what_came() {
  incoming_.erase(incoming_.begin(), incoming_.begin() + static_cast<std::ptrdiff_t>(read_));
  read_ = 0;
  std::array<std::byte, 65'536> piece;
  while (!has_ended_) {
    const Moved moved = receive_some(socket_, piece);
    has_ended_ = moved.has_ended;
    if (moved.count == 0) return;
    incoming_.insert(incoming_.end(), piece.begin(),
                     piece.begin() + static_cast<std::ptrdiff_t>(moved.count));
  }
}

std::optional<PlayedMessage> PlayedConnection::receive() {
  for (const bool is_first : {true, false}) {
    const std::span<const std::byte> rest = std::span(incoming_).subspan(read_);
    sim::ByteReader reader(rest.first(std::min(kHeader, rest.size())));
    const auto length = static_cast<std::size_t>(reader.number(4));
    if (rest.size() >= kHeader && rest.size() >= kHeader + length) {
      const auto word = static_cast<PlayedWord>(reader.number(1));
      const auto link = static_cast<std::uint32_t>(reader.number(4));
      const std::span<const std::byte> body = rest.subspan(kHeader, length);
      read_ += kHeader + length;
      return PlayedMessage{word, link, {body.begin(), body.end()}};
    }
    if (is_first) take_what_came();
  }
  return std::nullopt;
}

pollfd PlayedConnection::interest() const {
  const int events = outgoing_.empty() ? POLLIN : POLLIN | POLLOUT;
  return {socket_.descriptor(), static_cast<short>(events), 0};
}

}  // namespace test
