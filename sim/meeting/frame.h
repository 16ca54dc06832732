#pragma once

/// What goes over a connection between ranks: frames, each a kind, a body and a checksum.
///
/// Shapes  20 bytes, little-endian: "shpf", protocol version (2), kind (2), length of the body (4), checksum
///         (8) of kind and body; then the body.
/// Calls   parse_frame is a pure function of the bytes that have come so far: a frame, or "more is needed",
///         or why these bytes begin no frame. It tells the last as soon as it can: of a wrong magic at its
///         first byte, of a length before the body comes.
/// Errors  none: any bytes may come from anyone.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <variant>
#include <vector>

namespace sim {

using Bytes = std::vector<std::byte>;

inline constexpr std::uint16_t kProtocolVersion = 1;
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
  std::string reason;  // "bad magic"
  bool operator==(const NoFrame&) const = default;
};

using ParsedFrame = std::variant<Frame, NeedMore, NoFrame>;

/// The first frame of the bytes; it is kFrameHeader + body.size() of them.
ParsedFrame parse_frame(std::span<const std::byte> bytes, std::size_t most_body);

Bytes encoded_frame(const Frame& frame);

}  // namespace sim
