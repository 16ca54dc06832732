// Proves that any bytes from any sender give a frame, a request for more bytes, or a reason to hang up,
// and that nothing is read beyond the bytes.

#include "sim/meeting/frame.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <memory>
#include <rapidcheck/gtest.h>

#include "sim/meeting/rank_messages.h"

namespace {

using namespace sim;

constexpr std::size_t kMost = 200;

Bytes drawn_bytes(std::size_t most) {
  const auto length = *rc::gen::inRange<std::size_t>(0, most + 1);
  const auto numbers =
      *rc::gen::container<std::vector<std::uint8_t>>(length, rc::gen::arbitrary<std::uint8_t>());
  Bytes bytes;
  for (const std::uint8_t number : numbers) bytes.push_back(std::byte{number});
  return bytes;
}

Frame drawn_frame() {
  return {*rc::gen::element(FrameKind::hello, FrameKind::answer, FrameKind::report, FrameKind::conclusion),
          drawn_bytes(kMost)};
}

/// Parses bytes whose allocation ends where they end, so that a read beyond them is an error that
/// sanitizers see.
ParsedFrame parsed(const Bytes& bytes, std::size_t count) {
  const auto exact = std::make_unique<std::byte[]>(count);
  std::copy_n(bytes.begin(), count, exact.get());
  return parse_frame({exact.get(), count}, kMost);
}

RC_GTEST_PROP(Frame, IsReadAsItWasWritten, ()) {
  const Frame frame = drawn_frame();
  Bytes bytes = encoded_frame(frame);
  const std::size_t length = bytes.size();
  RC_ASSERT(length == kFrameHeader + frame.body.size());
  for (std::size_t count = 0; count < length; ++count)
    RC_ASSERT(parsed(bytes, count) == ParsedFrame(NeedMore{}));
  const Bytes next = drawn_bytes(kMost);
  bytes.insert(bytes.end(), next.begin(), next.end());
  RC_ASSERT(parsed(bytes, bytes.size()) == ParsedFrame(frame));
}

RC_GTEST_PROP(Frame, OneChangedBitIsSeen, ()) {
  const Frame frame = drawn_frame();
  Bytes bytes = encoded_frame(frame);
  const auto bit = *rc::gen::inRange<std::size_t>(0, 8 * bytes.size());
  bytes[bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
  RC_ASSERT(!std::holds_alternative<Frame>(parsed(bytes, bytes.size())));
}

/// Once the first bytes give a verdict, no further bytes change it. A parsed frame encodes to the very
/// bytes it was read from.
RC_GTEST_PROP(Frame, AnyBytes, ()) {
  Bytes bytes = *rc::gen::arbitrary<bool>() ? drawn_bytes(kMost) : encoded_frame(drawn_frame());
  const int changes = *rc::gen::inRange(0, 3);
  for (int i = 0; i < changes && !bytes.empty(); ++i) {
    bytes[*rc::gen::inRange<std::size_t>(0, bytes.size())] = std::byte{*rc::gen::arbitrary<std::uint8_t>()};
  }
  ParsedFrame before = NeedMore{};
  for (std::size_t count = 0; count <= bytes.size(); ++count) {
    const ParsedFrame now = parsed(bytes, count);
    if (before != ParsedFrame(NeedMore{})) RC_ASSERT(now == before);
    if (const auto* frame = std::get_if<Frame>(&now)) {
      const Bytes again = encoded_frame(*frame);
      RC_ASSERT(again.size() <= count);
      RC_ASSERT(std::equal(again.begin(), again.end(), bytes.begin()));
    }
    before = now;
  }
}

TEST(Frame, SaysAsSoonAsItCanWhyItIsNone) {
  const Bytes bytes = encoded_frame({FrameKind::report, Bytes(kMost)});
  const auto changed = [&](std::size_t at, std::uint8_t to, std::size_t count) {
    Bytes other = bytes;
    other[at] = std::byte{to};
    const ParsedFrame result = parsed(other, count);
    const auto* none = std::get_if<NoFrame>(&result);
    return none == nullptr ? "" : none->reason;
  };
  EXPECT_EQ(changed(0, 'G', 1), "bad magic");
  EXPECT_EQ(changed(4, 1, 6), "protocol version 1, not 2");
  EXPECT_EQ(changed(6, 9, 12), "unknown kind 9");
  EXPECT_EQ(changed(6, 0, 12), "unknown kind 0");
  EXPECT_EQ(changed(11, 255, 12), "a body of 4278190280 bytes, above 200");
  EXPECT_EQ(changed(12, 255, bytes.size()), "bad checksum");
}

// ---- Messages ----

std::string drawn_text() { return *rc::gen::container<std::string>(rc::gen::inRange<char>(' ', '~')); }

RC_GTEST_PROP(RankMessages, AreReadAsTheyWereWritten, ()) {
  const int world = *rc::gen::inRange(1, 1 << 20);
  const Hello hello{drawn_text(),
                    *rc::gen::inRange(0, world),
                    world,
                    *rc::gen::arbitrary<std::uint64_t>(),
                    drawn_text(),
                    drawn_bytes(kMost),
                    std::chrono::milliseconds(*rc::gen::inRange(0, 1 << 30))};
  RC_ASSERT(decoded_hello(frame_of(hello)) == std::optional(hello));
  RC_ASSERT(!decoded_answer(frame_of(hello)) && !decoded_report(frame_of(hello)) &&
            !decoded_ending(frame_of(hello)));
  const Report report{*rc::gen::arbitrary<bool>(), drawn_text()};
  RC_ASSERT(decoded_report(frame_of(report)) == std::optional(report));
  const Refusal refusal{drawn_text(), drawn_text(), drawn_text(), drawn_text(), drawn_text()};
  const auto refused = decoded_answer(frame_of(Answer{refusal, 1, 2, hello.payload}));
  RC_ASSERT(refused && refused->refusal && refused->refusal->code == refusal.code &&
            refused->refusal->hint == refusal.hint);
  const auto answer = decoded_answer(frame_of(Answer{{}, 1, 2, hello.payload}));
  RC_ASSERT(answer && answer->payload == hello.payload && answer->local_rank == 1 &&
            answer->local_world_size == 2);
  const auto ending = decoded_ending(frame_of(Ending{report.is_equal, refusal}));
  RC_ASSERT(ending && ending->is_equal == report.is_equal && ending->failure->numbers == refusal.numbers);
}

RC_GTEST_PROP(RankMessages, CutOrLengthenedTheyAreNone, ()) {
  Frame frame = frame_of(Hello{"1", 0, 1, 2, "host", drawn_bytes(kMost)});
  if (*rc::gen::arbitrary<bool>()) {
    frame.body.push_back({});
  } else {
    frame.body.resize(*rc::gen::inRange<std::size_t>(0, frame.body.size()));
  }
  RC_ASSERT(!decoded_hello(frame));
}

RC_GTEST_PROP(RankMessages, AnyBodyIsAMessageOrNone, ()) {
  Frame frame = drawn_frame();
  const auto hello = decoded_hello(frame);
  if (hello) RC_ASSERT(0 <= hello->rank && hello->rank < hello->world_size);
  const auto answer = decoded_answer(frame);
  if (answer) RC_ASSERT(answer->local_rank < answer->local_world_size);
  decoded_report(frame);
  decoded_ending(frame);
}

TEST(RankMessages, AreBounded) {
  EXPECT_FALSE(decoded_hello(frame_of(Hello{"1", 3, 3, 0, "host", {}})));
  EXPECT_FALSE(decoded_hello(frame_of(Hello{"1", 0, (1 << 20) + 1, 0, "host", {}})));
  EXPECT_FALSE(decoded_hello(frame_of(Hello{"1", 0, 1, 0, "host", Bytes(kMostPayload + 1)})));
  const auto hello =
      decoded_hello(frame_of(Hello{"1\n\x1b[2J", 0, 1, 0, std::string(1000, 'h'), Bytes(kMostPayload)}));
  ASSERT_TRUE(hello);
  // Control characters are replaced, because the text is printed.
  EXPECT_EQ(hello->program_version, "1??[2J");
  EXPECT_EQ(hello->host.size(), kMostName);
  EXPECT_EQ(decoded_report(frame_of(Report{true, std::string(5000, 't')}))->text.size(), kMostText);
  // The longest text of each field fits into a frame.
  EXPECT_LE(frame_of(*hello).body.size(), kMostBody);
  const std::string longest(5000, 'x');
  EXPECT_LE(frame_of(Answer{Refusal{longest, longest, longest, longest, longest}, 0, 1, {}}).body.size(),
            kMostBody);
}

}  // namespace
