#pragma once

/// The other end of a guest (sim/guest), in C++: it writes requests, reads answers, and keeps tensors in the
/// segment. Tests run it on a thread of their own.
///
/// Errors  std::runtime_error: the socket was closed; the text of an answer that refuses, or that says that the
///         world has ended.

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <span>
#include <string>

#include "sim/guest/guest_program.h"

namespace test {

/// A connected pair: the end of the rank, and that of its guest. It owns the descriptors.
class GuestLink {
 public:
  GuestLink();
  ~GuestLink();
  GuestLink(const GuestLink&) = delete;
  GuestLink& operator=(const GuestLink&) = delete;
  sim::GuestEnd end() const { return {sockets_[0], segment_}; }
  int guest_socket() const { return sockets_[1]; }
  int segment() const { return segment_; }
  /// The guest hangs up.
  void hang_up();
  /// The rank is over: a guest that still waits for an answer gets none.
  void end_of_rank();

 private:
  int sockets_[2] = {-1, -1};
  int segment_ = -1;
};

class GuestClient {
 public:
  GuestClient(const GuestLink& link, std::size_t segment_bytes);
  ~GuestClient();
  GuestClient(const GuestClient&) = delete;
  GuestClient& operator=(const GuestClient&) = delete;

  /// Writes a request and returns the answer.
  nlohmann::json ask(const nlohmann::json& request);
  void write(const std::string& bytes);
  /// Writes a body with its header.
  void write_frame(const std::string& body);
  nlohmann::json read_answer();
  std::span<std::byte> memory() const { return memory_; }

 private:
  int socket_;
  std::span<std::byte> memory_;
  std::uint32_t written_ = 0;
};

}  // namespace test
