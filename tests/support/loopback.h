#pragma once

/// Sockets of the loopback interface, for tests that listen, or that speak to a listener in bytes of their own.
///
/// Calls   nothing waits, except poll_until(). A socket that cannot be had is not open.

#include <cstddef>
#include <poll.h>
#include <span>
#include <utility>

#include "sim/base/deadline.h"

namespace test {

class Socket {
 public:
  explicit Socket(int descriptor = -1) : descriptor_(descriptor) {}
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
  int descriptor_;
};

/// Listens at a port; 0 lets the system choose one.
Socket listen_at(int port);
int port_of(const Socket& socket);
Socket accept_from(const Socket& listener);
Socket connect_to(int port);

/// The number of bytes that were sent or received: 0 if the call would have to wait, or if the connection has
/// ended.
struct Moved {
  std::size_t count = 0;
  bool has_ended = false;
};
Moved send_some(const Socket& socket, std::span<const std::byte> bytes);
Moved receive_some(const Socket& socket, std::span<std::byte> bytes);

/// Waits until one of the sockets is ready or the deadline has passed.
void poll_until(std::span<pollfd> sockets, const sim::Deadline& deadline);

}  // namespace test
