#include "sim/guest/frames.h"

#include <array>
#include <cerrno>
#include <cstring>
#include <fmt/format.h>
#include <sys/socket.h>
#include <utility>

#include "sim/base/error.h"
#include "sim/world/outside.h"

namespace sim {

namespace {

struct Header {
  std::uint32_t mark, number, body_bytes;
};
static_assert(sizeof(Header) == kFrameHeaderBytes);

std::string what_failed() { return std::strerror(errno); }

}  // namespace

void Frames::refuse_frame(std::string numbers) const {
  refuse({.code = "guest_frame",
          .option = "its process",
          .numbers = std::move(numbers),
          .rule = "a guest sends frames: a header of 12 bytes and a body, numbered from 0",
          .hint = "the client of this version, and nothing else that writes to its socket"});
}

void Frames::refuse_gone(std::string numbers) const {
  refuse({.code = "guest_gone",
          .option = "its process",
          .numbers = std::move(numbers),
          .rule = "a guest says that it has ended before it goes",
          .hint = "see the output of this rank: its process has died, or what it runs has ended it"});
}

/// Reads until this many bytes are pending.
void Frames::fill(std::size_t wanted) {
  std::array<char, 4096> chunk;
  while (pending_.size() < wanted) {
    const ssize_t got = recv(socket_, chunk.data(), chunk.size(), MSG_DONTWAIT);
    if (got > 0) {
      pending_.append(chunk.data(), static_cast<std::size_t>(got));
    } else if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
      wait_until_readable(socket_);
    } else if (got == 0) {
      refuse_gone(pending_.empty()
                      ? fmt::format("it is gone after {} requests", read_)
                      : fmt::format("it is gone after {} bytes of request {}", pending_.size(), read_));
    } else if (errno != EINTR) {
      refuse_gone(fmt::format("it cannot be heard after {} requests: {}", read_, what_failed()));
    }
  }
}

std::string Frames::read() {
  fill(kFrameHeaderBytes);
  Header header;
  std::memcpy(&header, pending_.data(), sizeof(header));
  if (header.mark != kFrameMark)
    refuse_frame(
        fmt::format("its frame {} begins with {:#010x} instead of {:#010x}", read_, header.mark, kFrameMark));
  if (header.number != read_)
    refuse_frame(fmt::format("its frame {} has the number {}", read_, header.number));
  if (header.body_bytes > kMostBodyBytes)
    refuse_frame(fmt::format("its frame {} has a body of {} bytes; at most {} are taken", read_,
                             header.body_bytes, kMostBodyBytes));
  const std::size_t end = kFrameHeaderBytes + header.body_bytes;
  fill(end);
  std::string body = pending_.substr(kFrameHeaderBytes, header.body_bytes);
  pending_.erase(0, end);
  ++read_;
  return body;
}

void Frames::write(const std::string& body) {
  const Header header{kFrameMark, written_++, static_cast<std::uint32_t>(body.size())};
  std::string frame(sizeof(header), '\0');
  std::memcpy(frame.data(), &header, sizeof(header));
  frame += body;
  for (std::size_t sent = 0; sent < frame.size();) {
    const ssize_t now = send(socket_, frame.data() + sent, frame.size() - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (now < 0 && errno == EINTR) continue;
    if (now < 0) refuse_gone(fmt::format("it does not take answer {}: {}", written_ - 1, what_failed()));
    sent += static_cast<std::size_t>(now);
  }
}

}  // namespace sim
