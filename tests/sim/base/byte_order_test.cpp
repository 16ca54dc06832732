// Proves that what a writer wrote is read again, and that no bytes of anybody are read beyond their end.

#include "sim/base/byte_order.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <memory>
#include <rapidcheck/gtest.h>

namespace {

using namespace sim;

/// Reads bytes whose allocation ends where they end, so that a read beyond them is an error that sanitizers
/// see. Returns whether they are a number of `width` bytes, a text and bytes.
bool is_read(const Bytes& bytes, std::size_t count, std::size_t width, std::uint64_t& number,
             std::string& text, Bytes& data) {
  const auto exact = std::make_unique<std::byte[]>(count);
  std::copy_n(bytes.begin(), count, exact.get());
  ByteReader reader({exact.get(), count});
  number = reader.number(width);
  text = reader.text();
  data = reader.bytes();
  return reader.is_whole();
}

RC_GTEST_PROP(ByteOrder, IsReadAsItWasWritten, (std::uint64_t number, std::string text)) {
  const auto width = *rc::gen::inRange<std::size_t>(1, 9);
  if (width < 8) number %= std::uint64_t{1} << (8 * width);
  ByteWriter writer;
  writer.number(number, width);
  writer.text(text);
  writer.bytes(Bytes(text.size(), std::byte{7}));
  Bytes bytes = writer.take();
  std::uint64_t read_number = 0;
  std::string read_text;
  Bytes read_data;
  RC_ASSERT(is_read(bytes, bytes.size(), width, read_number, read_text, read_data));
  RC_ASSERT(read_number == number && read_text == text && read_data == Bytes(text.size(), std::byte{7}));
  const auto count = *rc::gen::inRange<std::size_t>(0, bytes.size());
  RC_ASSERT(!is_read(bytes, count, width, read_number, read_text, read_data));
  bytes.push_back({});
  RC_ASSERT(!is_read(bytes, bytes.size(), width, read_number, read_text, read_data));
}

TEST(ByteOrder, IsLittleEndian) {
  ByteWriter writer;
  writer.number(0x0102, 3);
  EXPECT_EQ(writer.take(), (Bytes{std::byte{2}, std::byte{1}, std::byte{0}}));
}

}  // namespace
