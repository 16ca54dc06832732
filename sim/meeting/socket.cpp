#include "sim/meeting/socket.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <memory>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <system_error>
#include <unistd.h>
#include <vector>

namespace sim {

namespace {

std::string reason_of(int error) { return std::generic_category().message(error); }

using AddressList = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

/// Returns the addresses of a name. With a null name and AI_PASSIVE these are the addresses that listen on
/// all interfaces.
std::variant<AddressList, NoSocket> look_up(const char* name, int port, int flags) {
  addrinfo wanted{};
  wanted.ai_family = AF_UNSPEC;
  wanted.ai_socktype = SOCK_STREAM;
  wanted.ai_flags = flags | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(name, std::to_string(port).c_str(), &wanted, &found);
  if (error != 0) return NoSocket{gai_strerror(error)};
  return AddressList(found, &freeaddrinfo);
}

bool is_numeric(const std::string& address) {
  return std::holds_alternative<AddressList>(look_up(address.c_str(), 0, AI_NUMERICHOST));
}

Socket new_socket(int family) {
  return Socket(::socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
}

void set_option(const Socket& socket, int level, int name, int value) {
  setsockopt(socket.descriptor(), level, name, &value, sizeof value);
}

struct Endpoint {
  sockaddr_storage address{};
  socklen_t size = sizeof(sockaddr_storage);
  sockaddr* get() { return reinterpret_cast<sockaddr*>(&address); }
};

std::string text_of(Endpoint& endpoint) {
  std::array<char, NI_MAXHOST> host{};
  std::array<char, NI_MAXSERV> port{};
  const int error = getnameinfo(endpoint.get(), endpoint.size, host.data(), host.size(), port.data(),
                                port.size(), NI_NUMERICHOST | NI_NUMERICSERV);
  if (error != 0) return "an unknown address";
  std::string address = host.data();
  if (address.starts_with("::ffff:") && address.find('.') != std::string::npos) address.erase(0, 7);
  return endpoint_text(address, std::atoi(port.data()));
}

/// Whether a connection is connected to itself. The system may do that when a process connects to a port of
/// its own machine at which nobody listens.
bool is_connected_to_itself(const Socket& socket) {
  Endpoint here;
  Endpoint there;
  if (getsockname(socket.descriptor(), here.get(), &here.size) != 0) return false;
  if (getpeername(socket.descriptor(), there.get(), &there.size) != 0) return false;
  return text_of(here) == text_of(there);
}

std::variant<Socket, NoSocket> listen_at(const addrinfo& address) {
  Socket socket = new_socket(address.ai_family);
  if (!socket.is_open()) return NoSocket{reason_of(errno)};
  // With this option a run need not wait until the last connections of an earlier run have timed out.
  set_option(socket, SOL_SOCKET, SO_REUSEADDR, 1);
  if (address.ai_family == AF_INET6) set_option(socket, IPPROTO_IPV6, IPV6_V6ONLY, 0);
  if (::bind(socket.descriptor(), address.ai_addr, address.ai_addrlen) != 0 ||
      ::listen(socket.descriptor(), SOMAXCONN) != 0) {
    return NoSocket{reason_of(errno)};
  }
  return socket;
}

std::variant<Socket, NoSocket> connect_to(const addrinfo& address, const Deadline& deadline) {
  Socket socket = new_socket(address.ai_family);
  if (!socket.is_open()) return NoSocket{reason_of(errno)};
  set_option(socket, IPPROTO_TCP, TCP_NODELAY, 1);
  if (::connect(socket.descriptor(), address.ai_addr, address.ai_addrlen) != 0) {
    // An interrupted connect continues in the background, as one that would block does.
    if (errno != EINPROGRESS && errno != EINTR) return NoSocket{reason_of(errno)};
    std::array<pollfd, 1> waiting = {{{socket.descriptor(), POLLOUT, 0}}};
    poll_until(waiting, deadline);
    if (waiting[0].revents == 0) return NoSocket{"no answer"};
    int error = 0;
    socklen_t size = sizeof error;
    getsockopt(socket.descriptor(), SOL_SOCKET, SO_ERROR, &error, &size);
    if (error != 0) return NoSocket{reason_of(error)};
  }
  if (is_connected_to_itself(socket)) return NoSocket{"nobody listens"};
  return socket;
}

}  // namespace

void Socket::close() {
  // Linux frees the descriptor even if a signal interrupts close().
  if (descriptor_ >= 0) ::close(std::exchange(descriptor_, -1));
}

std::string endpoint_text(const std::string& address, int port) {
  return address.find(':') == std::string::npos ? fmt::format("{}:{}", address, port)
                                                : fmt::format("[{}]:{}", address, port);
}

std::variant<Socket, NoSocket> listen_at(const std::string& address, int port) {
  const char* name = is_numeric(address) ? address.c_str() : nullptr;
  auto found = look_up(name, port, AI_PASSIVE);
  if (auto* none = std::get_if<NoSocket>(&found)) return std::move(*none);
  std::vector<const addrinfo*> addresses;
  for (const addrinfo* at = std::get<AddressList>(found).get(); at != nullptr; at = at->ai_next) {
    addresses.push_back(at);
  }
  // IPv6 comes first: its "all addresses" includes those of IPv4. A machine without IPv6 has only IPv4.
  std::stable_sort(addresses.begin(), addresses.end(), [](const addrinfo* a, const addrinfo* b) {
    return a->ai_family == AF_INET6 && b->ai_family != AF_INET6;
  });
  std::string reason = "no address";
  for (const addrinfo* at : addresses) {
    auto listener = listen_at(*at);
    if (std::holds_alternative<Socket>(listener)) return listener;
    reason = std::get<NoSocket>(listener).reason;
  }
  return NoSocket{reason};
}

int port_of(const Socket& socket) {
  Endpoint here;
  if (getsockname(socket.descriptor(), here.get(), &here.size) != 0) return 0;
  const bool is_v6 = here.address.ss_family == AF_INET6;
  return is_v6 ? ntohs(reinterpret_cast<const sockaddr_in6*>(&here.address)->sin6_port)
               : ntohs(reinterpret_cast<const sockaddr_in*>(&here.address)->sin_port);
}

std::variant<Accepted, NoAccept> accept_from(const Socket& listener) {
  while (true) {
    Endpoint peer;
    Socket socket(::accept4(listener.descriptor(), peer.get(), &peer.size, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (socket.is_open()) {
      set_option(socket, IPPROTO_TCP, TCP_NODELAY, 1);
      return Accepted{std::move(socket), text_of(peer)};
    }
    if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)
      return NoAccept::no_descriptors;
    if (errno == EAGAIN || errno == EWOULDBLOCK) return NoAccept::nobody_waits;
    // With any other error, such as EINTR or a connection that closed before it was accepted, the loop takes
    // the next connection.
    if (errno == EBADF || errno == EINVAL || errno == ENOTSOCK) return NoAccept::nobody_waits;
  }
}

std::variant<Socket, NoSocket> connect_to(const std::string& address, int port, const Deadline& deadline) {
  constexpr std::chrono::seconds kPatience{2};  // An address may not answer while the next one does.
  auto found = look_up(address.c_str(), port, 0);
  if (auto* none = std::get_if<NoSocket>(&found)) return std::move(*none);
  std::string reason = "no address";
  for (const addrinfo* at = std::get<AddressList>(found).get(); at != nullptr; at = at->ai_next) {
    auto socket = connect_to(*at, std::min(deadline, Deadline::after(kPatience)));
    if (std::holds_alternative<Socket>(socket)) return socket;
    reason = std::get<NoSocket>(socket).reason;
  }
  return NoSocket{reason};
}

Moved send_some(const Socket& socket, std::span<const std::byte> bytes) {
  while (true) {
    const ssize_t sent = ::send(socket.descriptor(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent >= 0) return {static_cast<std::size_t>(sent), false};
    if (errno == EINTR) continue;
    return {0, errno != EAGAIN && errno != EWOULDBLOCK};
  }
}

Moved receive_some(const Socket& socket, std::span<std::byte> bytes) {
  while (true) {
    const ssize_t received = ::recv(socket.descriptor(), bytes.data(), bytes.size(), 0);
    if (received >= 0) return {static_cast<std::size_t>(received), received == 0};
    if (errno == EINTR) continue;
    return {0, errno != EAGAIN && errno != EWOULDBLOCK};
  }
}

void poll_until(std::span<pollfd> sockets, const Deadline& deadline) {
  do {
    const int ready = ::poll(sockets.data(), sockets.size(), deadline.poll_timeout());
    if (ready > 0) return;
    if (ready < 0) {
      for (pollfd& socket : sockets) socket.revents = 0;  // An interrupted poll may leave stale events.
      if (errno != EINTR) return;
    }
  } while (!deadline.has_passed());
}

std::string host_name() {
  std::array<char, 256> name{};
  if (gethostname(name.data(), name.size() - 1) != 0) return "unknown";
  return name.data();
}

}  // namespace sim
