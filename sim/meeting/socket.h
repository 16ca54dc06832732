#pragma once

/// A TCP socket that closes itself, and the operations that a rendezvous needs. Sending, receiving and
/// accepting do not block. Waiting ends at a deadline, except for the look-up of a name, which takes as
/// long as the system's resolver takes. No operation raises SIGPIPE, and all continue after a signal (EINTR).
///
/// Calls   listen_at() with a numeric address listens at that address only. With a name it listens at all
///         addresses of the machine, because a host may resolve its own name to another address than other
///         hosts do (127.0.1.1 on Debian).
/// Errors  returned as texts, because the caller decides whether to try again.

#include <cstdint>
#include <optional>
#include <poll.h>
#include <span>
#include <string>
#include <utility>
#include <variant>

#include "sim/meeting/deadline.h"

namespace sim {

class Socket {
 public:
  Socket() = default;
  explicit Socket(int descriptor) : descriptor_(descriptor) {}
  Socket(Socket&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  Socket& operator=(Socket&& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    return *this;
  }
  ~Socket() { close(); }

  int descriptor() const { return descriptor_; }
  bool is_open() const { return descriptor_ >= 0; }
  void close();

 private:
  int descriptor_ = -1;
};

/// The reason why there is no socket, such as "connection refused".
struct NoSocket {
  std::string reason;
};

/// Returns a text such as "10.0.0.1:29511" or "[::1]:29511".
std::string endpoint_text(const std::string& address, int port);

/// Listens at an address. With port 0 the system chooses a port, which port_of() returns.
std::variant<Socket, NoSocket> listen_at(const std::string& address, int port);
int port_of(const Socket& socket);

struct Accepted {
  Socket socket;
  std::string peer;  // the endpoint of the other side
};
enum class NoAccept : std::uint8_t { nobody_waits, no_descriptors };
std::variant<Accepted, NoAccept> accept_from(const Socket& listener);

/// Connects to the first address of the name that answers. It tries each for at most two seconds.
std::variant<Socket, NoSocket> connect_to(const std::string& address, int port, const Deadline& deadline);

/// The number of bytes that were sent or received: 0 if the call would have blocked, or if the connection has
/// ended.
struct Moved {
  std::size_t count = 0;
  bool has_ended = false;
};
Moved send_some(const Socket& socket, std::span<const std::byte> bytes);
Moved receive_some(const Socket& socket, std::span<std::byte> bytes);

/// Waits until one of the sockets is ready or the deadline has passed.
void poll_until(std::span<pollfd> sockets, const Deadline& deadline);

/// Returns the name of this machine, or "unknown" if the system does not give one.
std::string host_name();

}  // namespace sim
