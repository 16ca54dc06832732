#include "sim/cpu/streamed_copy.h"

#include <algorithm>
#include <cstring>
#if defined(__x86_64__)
#include <emmintrin.h>
#endif

namespace sim {

namespace {

constexpr std::int64_t kLine = 64;

void copy(const std::byte* from, std::byte* to, std::int64_t bytes) {
  if (bytes > 0) std::memcpy(to, from, static_cast<std::size_t>(bytes));
}

#if defined(__x86_64__)

/// `to` begins a line.
void copy_lines(const std::byte* from, std::byte* to, std::int64_t lines) {
  for (; lines > 0; --lines, from += kLine, to += kLine) {
    const auto* source = reinterpret_cast<const __m128i*>(from);
    auto* target = reinterpret_cast<__m128i*>(to);
    const __m128i a = _mm_loadu_si128(source), b = _mm_loadu_si128(source + 1);
    const __m128i c = _mm_loadu_si128(source + 2), d = _mm_loadu_si128(source + 3);
    _mm_stream_si128(target, a);
    _mm_stream_si128(target + 1, b);
    _mm_stream_si128(target + 2, c);
    _mm_stream_si128(target + 3, d);
  }
  _mm_sfence();  // the order of streamed stores is otherwise not that of other stores
}

#else

void copy_lines(const std::byte* from, std::byte* to, std::int64_t lines) { copy(from, to, lines * kLine); }

#endif

}  // namespace

void streamed_copy(const std::byte* from, std::byte* to, std::int64_t bytes) {
  const auto past_a_line = static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(to) % kLine);
  const std::int64_t head = std::min(bytes, (kLine - past_a_line) % kLine);
  const std::int64_t lines = (bytes - head) / kLine;
  copy(from, to, head);
  copy_lines(from + head, to + head, lines);
  const std::int64_t done = head + lines * kLine;
  copy(from + done, to + done, bytes - done);
}

}  // namespace sim
