#pragma once

/// A connection that speaks in frames (frame.h), without ever waiting: what came so far of the next frame,
/// and what of the last ones has still to go out.
///
/// Exact   holds at most one frame of kMostBody that comes in; a frame is handed out once it is whole.
/// Errors  none: what the peer did wrong is a result.

#include <string>
#include <variant>

#include "sim/meeting/frame.h"
#include "sim/meeting/socket.h"

namespace sim {

/// The other side has closed, or the network has: `had_begun` in the middle of a frame.
struct Ended {
  bool had_begun = false;
};

/// A whole frame, or nothing yet, or bytes that are none, or the end.
using Incoming = std::variant<Frame, NeedMore, NoFrame, Ended>;

class Connection {
 public:
  Connection(Socket socket, std::string peer) : socket_(std::move(socket)), peer_(std::move(peer)) {}

  const std::string& peer() const { return peer_; }
  bool is_open() const { return socket_.is_open(); }
  void close() { socket_.close(); }

  Incoming receive();

  void send(const Frame& frame);
  /// Sends on what there is to send; a connection that has ended has nothing any more.
  void flush();
  bool has_to_send() const { return !outgoing_.empty(); }

  /// What to wait for: the next bytes, and room for those that have to go out.
  pollfd interest() const;

 private:
  Socket socket_;
  std::string peer_;
  Bytes incoming_;
  Bytes outgoing_;
};

}  // namespace sim
