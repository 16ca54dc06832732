// Proves where text and lines of a shell are broken.

#include "verify/output/wrapped_text.h"

#include <gtest/gtest.h>

namespace {

TEST(WrappedText, BreaksAtBlanksAndIndents) {
  EXPECT_EQ(verify::wrapped("", 0, "one two three", 7), "one two\nthree\n");
  EXPECT_EQ(verify::wrapped("  -a", 8, "one two three", 15), "  -a    one two\n        three\n");
  EXPECT_EQ(verify::wrapped("  --long", 8, "one", 15), "  --long\n        one\n");
  EXPECT_EQ(verify::wrapped("", 2, "unbreakable a", 4), "  unbreakable\n  a\n");
  EXPECT_EQ(verify::wrapped("  -a", 8, "", 15), "  -a\n");
}

TEST(WrappedText, ContinuesACommandBeforeAnOption) {
  EXPECT_EQ(verify::wrapped_command(2, "run --size 8 --order a b --flag", 24),
            "  run --size 8 \\\n    --order a b --flag\n");
  EXPECT_EQ(verify::wrapped_command(2, "run --size 8", 80), "  run --size 8\n");
}

}  // namespace
