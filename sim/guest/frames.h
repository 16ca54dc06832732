#pragma once

/// Frames: how a guest, which is a process of its own, and its rank tell each other what to do. Both ends of
/// a connected Unix socket write whole frames and read whole frames.
///
/// Shapes  a frame is a header of 12 bytes and a body. The header has three numbers of 32 bits,
///         little-endian: "SPG1" as 0x31475053, the number of the frame among those of its sender, from 0,
///         and the bytes of the body, at most kMostBodyBytes. The body is a JSON object in UTF-8
///         (guest_request.h).
/// Calls   read() waits with wait_until_readable(), so that other ranks run meanwhile.
/// Errors  guest_frame: what came is no frame, is too large, or has another number than the next one;
///         guest_gone: the other end was closed, in the middle of a frame or without a word of the end, or it
///         does not read its answers. Both say what has come; the finding of the run names the rank.

#include <cstdint>
#include <string>

namespace sim {

inline constexpr std::uint32_t kFrameMark = 0x31475053;
inline constexpr std::size_t kFrameHeaderBytes = 12;
inline constexpr std::size_t kMostBodyBytes = std::size_t{1} << 20;

class Frames {
 public:
  /// `socket` stays the caller's.
  explicit Frames(int socket) : socket_(socket) {}

  /// Returns the body of the next frame.
  std::string read();
  /// The number of the frame that was read last.
  std::size_t number() const { return read_ - std::size_t{1}; }
  void write(const std::string& body);

 private:
  void fill(std::size_t wanted);
  [[noreturn]] void refuse_frame(std::string numbers) const;
  [[noreturn]] void refuse_gone(std::string numbers) const;

  int socket_;
  std::string pending_;  // what has come and has not been returned
  std::uint32_t read_ = 0, written_ = 0;
};

}  // namespace sim
