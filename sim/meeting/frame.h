#pragma once

/// A frame is the unit that ranks send over a connection. It has a kind, a body and a checksum.
///
/// Shapes  a header of 20 bytes, little-endian: "shpf" (4 bytes), protocol version (2), kind (2), length of
///         the body (4), checksum of kind and body (8); then the body.
/// Calls   parse_frame() is a pure function of the bytes that have arrived so far. It returns a frame, or
///         NeedMore, or NoFrame with the reason why no frame begins with these bytes. It returns NoFrame as
///         early as possible: for a wrong magic at its first wrong byte, for a wrong length before the body
///         arrives.
/// Errors  none: bytes that are no frame are a result, because strangers may send any bytes.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <variant>
#include <vector>

namespace sim {

using Bytes = std::vector<std::byte>;

inline constexpr std::uint16_t kProtocolVersion = 2;
inline constexpr std::size_t kFrameHeader = 20;

enum class FrameKind : std::uint16_t { hello = 1, answer, report, conclusion };

struct Frame {
  FrameKind kind{};
  Bytes body;
  bool operator==(const Frame&) const = default;
};

struct NeedMore {
  bool operator==(const NeedMore&) const = default;
};

struct NoFrame {
  std::string reason;  // such as "bad magic"
  bool operator==(const NoFrame&) const = default;
};

using ParsedFrame = std::variant<Frame, NeedMore, NoFrame>;

/// Returns the first frame of the bytes, which takes kFrameHeader + body.size() of them. A body of more than
/// `most_body` bytes is not a frame.
ParsedFrame parse_frame(std::span<const std::byte> bytes, std::size_t most_body);

/// Returns the bytes of a frame, header and body.
Bytes encoded_frame(const Frame& frame);

}  // namespace sim
