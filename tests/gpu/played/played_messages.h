#pragma once

/// What processes and the one that plays NCCL for them (played_server.h) tell each other, and a connection
/// that carries it without ever waiting.
///
///   hello   from a process: its rank, the world's size, its GPU                made        to it: a link is
///           there, of so many members
///   put     a group of requests, with the bytes that they read                 taken, done to it: NCCL has a
///           group; what it has written
///   split   a color and a key, and the number of the link to be made           split_over
///   close   of a link, by all its members                                      closed
///   leave   of a link, without the others                                      failed      a link, in words
///
/// Shapes  the length of the body (4), the word (1), the link (4); then the body: numbers and bytes of
///         sim/meeting/byte_order.h. A process numbers its links itself; 0 is the world's.
/// Errors  none: both sides are of one build.

#include <cstdint>
#include <optional>

#include "sim/meeting/byte_order.h"
#include "sim/meeting/frame.h"
#include "sim/meeting/socket.h"

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
  explicit PlayedConnection(sim::Socket socket) : socket_(std::move(socket)) {}

  void send(const PlayedMessage& message);
  void flush();
  /// The next one, if it is there as a whole.
  std::optional<PlayedMessage> receive();
  /// By the other side; what came before has been received.
  bool has_ended() const { return has_ended_; }
  void close() { socket_.close(); }
  pollfd interest() const;

 private:
  void take_what_came();

  sim::Socket socket_;
  sim::Bytes incoming_;
  std::size_t read_ = 0;  // of it
  sim::Bytes outgoing_;
  std::size_t sent_ = 0;  // of it
  bool has_ended_ = false;
};

}  // namespace test
