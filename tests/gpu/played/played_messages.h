#pragma once

/// The messages between processes and the one that plays NCCL for them (played_server.h), and a connection
/// that carries them without ever waiting.
///
///   from a process:
///   hello        its rank, the world's size and its GPU
///   put          a group of requests, with the bytes that they read
///   split        a color, a key and the number of the link to be made
///   close        closes a link, which all its members do
///   leave        leaves a link without the others
///   to a process:
///   made         a link exists, with its number of members
///   taken, done  NCCL has taken a group; the bytes that the group has written
///   split_over   a split is over
///   closed       a link is closed
///   failed       a link has failed, with the reason in words
///
/// Shapes  A message is the length of the body (4 bytes), the word (1), the link (4) and the body, which
///         holds numbers and bytes as in sim/base/byte_order.h. A process numbers its links itself, and 0
///         is the world's.
/// Errors  none: both sides come from one build.

#include <cstdint>
#include <optional>

#include "sim/base/byte_order.h"
#include "tests/support/loopback.h"

namespace test {

enum class PlayedWord : std::uint8_t {
  hello,
  put,
  split,
  close,
  leave,
  made,
  taken,
  done,
  split_over,
  closed,
  failed
};

struct PlayedMessage {
  PlayedWord word{};
  std::uint32_t link = 0;
  sim::Bytes body = {};
};

class PlayedConnection {
 public:
  explicit PlayedConnection(Socket socket) : socket_(std::move(socket)) {}

  void send(const PlayedMessage& message);
  void flush();
  /// Returns the next message if all of it has arrived.
  std::optional<PlayedMessage> receive();
  /// Whether the other side has ended. What it sent before has been received.
  bool has_ended() const { return has_ended_; }
  void close() { socket_.close(); }
  pollfd interest() const;

 private:
  void take_what_came();

  Socket socket_;
  sim::Bytes incoming_;
  std::size_t read_ = 0;  // bytes of `incoming_` that were read
  sim::Bytes outgoing_;
  std::size_t sent_ = 0;  // bytes of `outgoing_` that were sent
  bool has_ended_ = false;
};

}  // namespace test
