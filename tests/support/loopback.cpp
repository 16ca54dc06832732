#include "tests/support/loopback.h"

#include <cerrno>
#include <cstdint>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

namespace test {

namespace {

sockaddr_in place_of(int port) {
  sockaddr_in place{};
  place.sin_family = AF_INET;
  place.sin_port = htons(static_cast<std::uint16_t>(port));
  place.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return place;
}

void set_option(const Socket& socket, int level, int name) {
  const int on = 1;
  setsockopt(socket.descriptor(), level, name, &on, sizeof on);
}

Moved moved(ssize_t count) {
  if (count >= 0) return {static_cast<std::size_t>(count), false};
  return {0, errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR};
}

}  // namespace

void Socket::close() {
  if (is_open()) ::close(std::exchange(descriptor_, -1));
}

Socket listen_at(int port) {
  Socket socket(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  set_option(socket, SOL_SOCKET, SO_REUSEADDR);
  const sockaddr_in place = place_of(port);
  const bool listens =
      ::bind(socket.descriptor(), reinterpret_cast<const sockaddr*>(&place), sizeof place) == 0 &&
      ::listen(socket.descriptor(), SOMAXCONN) == 0;
  return listens ? std::move(socket) : Socket();
}

int port_of(const Socket& socket) {
  sockaddr_in place{};
  socklen_t size = sizeof place;
  getsockname(socket.descriptor(), reinterpret_cast<sockaddr*>(&place), &size);
  return ntohs(place.sin_port);
}

Socket accept_from(const Socket& listener) {
  Socket socket(::accept4(listener.descriptor(), nullptr, nullptr, SOCK_CLOEXEC));
  set_option(socket, IPPROTO_TCP, TCP_NODELAY);
  return socket;
}

Socket connect_to(int port) {
  Socket socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  set_option(socket, IPPROTO_TCP, TCP_NODELAY);
  const sockaddr_in place = place_of(port);
  const bool reaches =
      ::connect(socket.descriptor(), reinterpret_cast<const sockaddr*>(&place), sizeof place) == 0;
  return reaches ? std::move(socket) : Socket();
}

Moved send_some(const Socket& socket, std::span<const std::byte> bytes) {
  return moved(::send(socket.descriptor(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT));
}

Moved receive_some(const Socket& socket, std::span<std::byte> bytes) {
  const ssize_t count = ::recv(socket.descriptor(), bytes.data(), bytes.size(), MSG_DONTWAIT);
  return count == 0 ? Moved{0, true} : moved(count);
}

void poll_until(std::span<pollfd> sockets, const sim::Deadline& deadline) {
  do {
    const int ready = ::poll(sockets.data(), sockets.size(), static_cast<int>(deadline.remaining().count()));
    if (ready > 0) return;
  } while (!deadline.has_passed());
}

}  // namespace test
