#include "verify/recordings/pickle_writer.h"

#include <bit>
#include <limits>
#include <utility>

namespace verify {

namespace {

constexpr int kProtocol = 2;
constexpr std::uint64_t kMostShortMemo = 255;  // the largest number that BINPUT and BINGET take

}  // namespace

PickleWriter::PickleWriter() : out_("\x80") { little_endian(kProtocol, 1); }

void PickleWriter::little_endian(std::uint64_t number, int bytes) {
  for (int i = 0; i < bytes; ++i, number >>= 8U) out_ += static_cast<char>(number & 0xFFU);
}

void PickleWriter::text(std::string_view text) {
  const auto known = memo_.find(text);
  const bool is_new = known == memo_.end();
  const std::uint64_t number = is_new ? memo_.size() : known->second;
  if (is_new) {
    out_ += 'X';
    little_endian(text.size(), 4);
    out_ += text;
    memo_.emplace(text, number);
  }
  const bool is_short = number <= kMostShortMemo;
  out_ += is_new ? (is_short ? 'q' : 'r') : (is_short ? 'h' : 'j');
  little_endian(number, is_short ? 1 : 4);
}

void PickleWriter::number(std::int64_t number) {
  const auto bits = static_cast<std::uint64_t>(number);
  if (number >= 0 && number <= 0xFF) {
    out_ += 'K';
    little_endian(bits, 1);
  } else if (number >= 0 && number <= 0xFFFF) {
    out_ += 'M';
    little_endian(bits, 2);
  } else if (std::in_range<std::int32_t>(number)) {
    out_ += 'J';
    little_endian(bits, 4);
  } else {
    out_ += "\x8a\x08";
    little_endian(bits, 8);
  }
}

/// BINFLOAT is the only opcode whose number is big-endian.
void PickleWriter::real(double number) {
  out_ += 'G';
  const auto bits = std::bit_cast<std::uint64_t>(number);
  for (int shift = 56; shift >= 0; shift -= 8)
    out_ += static_cast<char>((bits >> static_cast<unsigned>(shift)) & 0xFFU);
}

std::string PickleWriter::finish() {
  out_ += '.';
  return std::move(out_);
}

}  // namespace verify
