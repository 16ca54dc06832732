// Proves that foreign text can neither steer a terminal nor begin a line.

#include "sim/base/printable_text.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

namespace {

using sim::printable_text;

TEST(PrintableText, ControlCharactersAreEscapedAndOthersStay) {
  EXPECT_EQ(printable_text("plain \\n text, caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80"),
            "plain \\n text, caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80");
  EXPECT_EQ(printable_text("a\nb\tc\rd\x1b[31m\x7f"), "a\\nb\\tc\\x0dd\\x1b[31m\\x7f");
  EXPECT_EQ(printable_text(std::string_view("\0", 1)), "\\x00");
  EXPECT_EQ(printable_text("\xc2\x9b"
                           "2J"),
            "\\xc2\\x9b2J");  // the control sequence introducer in UTF-8
  EXPECT_EQ(printable_text("\x9b\xff\xe2\x82"), "\\x9b\\xff\\xe2\\x82");
  EXPECT_EQ(printable_text("\xc0\x9b"), "\\xc0\\x9b");  // longer than needed
}

RC_GTEST_PROP(PrintableText, OfAnyBytesIsOneLineAndPrintableAgain, (const std::string& bytes)) {
  const std::string text = printable_text(bytes);
  RC_ASSERT(printable_text(text) == text);
  for (std::string_view rest = text; !rest.empty(); rest.remove_prefix(sim::character_bytes(rest))) {
    RC_ASSERT(sim::character_bytes(rest) > 0U);
    RC_ASSERT(static_cast<unsigned char>(rest.front()) >= 0x20 && rest.front() != '\x7f');
  }
}

}  // namespace
