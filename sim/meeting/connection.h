#pragma once

/// A connection that sends and receives frames (frame.h) and never blocks. It keeps the bytes of the next
/// frame that have arrived so far, and the bytes of earlier frames that have not been sent yet.
///
/// Exact   the incoming buffer holds at most one frame with a body of kMostBody bytes. A frame is returned
///         once it is complete.
/// Errors  none: a fault of the peer is a result.

#include <string>
#include <variant>

#include "sim/meeting/frame.h"
#include "sim/meeting/socket.h"

namespace sim {

/// The peer or the network has closed the connection. `had_begun` says that this was in the middle of a
/// frame.
struct Ended {
  bool had_begun = false;
};

/// The result of receive(): a complete frame, no complete frame yet, bytes that are not a frame, or the end
/// of the connection.
using Incoming = std::variant<Frame, NeedMore, NoFrame, Ended>;

class Connection {
 public:
  Connection(Socket socket, std::string peer) : socket_(std::move(socket)), peer_(std::move(peer)) {}

  const std::string& peer() const { return peer_; }
  bool is_open() const { return socket_.is_open(); }
  void close() { socket_.close(); }

  /// Reads what has arrived, without waiting.
  Incoming receive();

  /// Queues a frame, and sends as much as can be sent without waiting.
  void send(const Frame& frame);
  /// Sends queued bytes as far as possible without waiting. If the connection has ended, it discards them.
  void flush();
  bool has_to_send() const { return !outgoing_.empty(); }

  /// Returns the events to poll for: incoming bytes, and also room to send if bytes are queued.
  pollfd interest() const;

 private:
  Socket socket_;
  std::string peer_;
  Bytes incoming_;
  Bytes outgoing_;
};

}  // namespace sim
