#pragma once

/// A TCP socket that closes itself, and what a rendezvous does with one. None of the calls blocks, but for
/// the look-up of a name, which takes as long as the system's resolver takes; none raises SIGPIPE; all go on
/// after a signal (EINTR).
///
/// Calls   a numeric address is listened at as it is. Under a name, a host may know itself by another address
///         than others know it by (127.0.1.1 on Debian), so a name is listened at on all addresses of the
///         machine.
/// Errors  in words, as results: the caller knows whether to try again.

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

/// Why there is no socket: "connection refused".
struct NoSocket {
  std::string reason;
};

/// "10.0.0.1:29511", "[::1]:29511".
std::string endpoint_text(const std::string& address, int port);

/// Port 0 has the system choose one.
std::variant<Socket, NoSocket> listen_at(const std::string& address, int port);
int port_of(const Socket& socket);

struct Accepted {
  Socket socket;
  std::string peer;  // its endpoint
};
enum class NoAccept : std::uint8_t { nobody_waits, no_descriptors };
std::variant<Accepted, NoAccept> accept_from(const Socket& listener);

/// Tries each address that the name has, for at most two seconds each.
std::variant<Socket, NoSocket> connect_to(const std::string& address, int port, const Deadline& deadline);

/// Bytes moved; 0 when it would block (nothing was moved); nullopt when the connection has ended.
struct Moved {
  std::size_t count = 0;
  bool has_ended = false;
};
Moved send_some(const Socket& socket, std::span<const std::byte> bytes);
Moved receive_some(const Socket& socket, std::span<std::byte> bytes);

/// Waits until one of them is ready, or the deadline.
void poll_until(std::span<pollfd> sockets, const Deadline& deadline);

/// The name of this machine.
std::string host_name();

}  // namespace sim
