#include "sim/meeting/frame.h"

#include <algorithm>
#include <array>
#include <fmt/format.h>

#include "sim/base/content_hash.h"
#include "sim/meeting/byte_order.h"

namespace sim {

namespace {

constexpr std::array<char, 4> kMagic = {'s', 'h', 'p', 'f'};
constexpr std::size_t kVersionEnd = 6;
constexpr std::size_t kLengthEnd = 12;

std::uint64_t checksum(std::uint16_t kind, std::span<const std::byte> body) {
  ContentHash hash;
  hash.add(std::uint64_t{kind});
  hash.add(std::uint64_t{body.size()});
  hash.add(body);
  return hash.value();
}

bool begins_as_magic(std::span<const std::byte> bytes) {
  const std::size_t known = std::min(bytes.size(), kMagic.size());
  for (std::size_t i = 0; i < known; ++i) {
    if (static_cast<char>(bytes[i]) != kMagic[i]) return false;
  }
  return true;
}

}  // namespace

ParsedFrame parse_frame(std::span<const std::byte> bytes, std::size_t most_body) {
  if (!begins_as_magic(bytes)) return NoFrame{"bad magic"};
  if (bytes.size() < kVersionEnd) return NeedMore{};
  ByteReader header(bytes.subspan(kMagic.size()));
  const auto version = static_cast<std::uint16_t>(header.number(2));
  if (version != kProtocolVersion) {
    return NoFrame{fmt::format("protocol version {}, not {}", version, kProtocolVersion)};
  }
  if (bytes.size() < kLengthEnd) return NeedMore{};
  const auto kind = static_cast<std::uint16_t>(header.number(2));
  const auto length = static_cast<std::size_t>(header.number(4));
  if (kind < static_cast<std::uint16_t>(FrameKind::hello) ||
      kind > static_cast<std::uint16_t>(FrameKind::conclusion)) {
    return NoFrame{fmt::format("unknown kind {}", kind)};
  }
  if (length > most_body) return NoFrame{fmt::format("a body of {} bytes, above {}", length, most_body)};
  if (bytes.size() < kFrameHeader + length) return NeedMore{};
  const std::uint64_t expected = header.number(8);
  const std::span<const std::byte> body = bytes.subspan(kFrameHeader, length);
  if (checksum(kind, body) != expected) return NoFrame{"bad checksum"};
  return Frame{static_cast<FrameKind>(kind), Bytes(body.begin(), body.end())};
}

Bytes encoded_frame(const Frame& frame) {
  const auto kind = static_cast<std::uint16_t>(frame.kind);
  ByteWriter writer;
  for (const char c : kMagic) writer.number(static_cast<std::uint8_t>(c), 1);
  writer.number(kProtocolVersion, 2);
  writer.number(kind, 2);
  writer.number(frame.body.size(), 4);
  writer.number(checksum(kind, frame.body), 8);
  Bytes bytes = writer.take();
  bytes.insert(bytes.end(), frame.body.begin(), frame.body.end());
  return bytes;
}

}  // namespace sim
