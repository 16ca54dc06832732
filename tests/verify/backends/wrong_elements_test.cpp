// Proves that what ranks tell rank 0 about wrong elements is read back unchanged, and is never longer
// than the room for it.

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>
#include <string>
#include <vector>

#include "verify/backends/bandwidth_round.h"

namespace {

using sim::Operation;
using verify::BandwidthRows;

BandwidthRows rows_with(const std::vector<std::int64_t>& wrong) {
  BandwidthRows rows;
  for (const std::int64_t each : wrong)
    rows.push_back({"tp", 2, Operation::all_reduce, sim::DType::f32, 1, 4, -1, 0, 1.0, each});
  return rows;
}

RC_GTEST_PROP(WrongElements, TextIsReadBack, ()) {
  const auto wrong = *rc::gen::container<std::vector<std::int64_t>>(
      rc::gen::oneOf(rc::gen::just<std::int64_t>(0), rc::gen::inRange<std::int64_t>(0, 1 << 30)));
  const auto most = *rc::gen::inRange<std::size_t>(40, 200);
  const std::string text = verify::wrong_elements_text(rows_with(wrong), most);
  RC_ASSERT(text.size() <= most);
  BandwidthRows rows = rows_with(std::vector<std::int64_t>(wrong.size(), 5));
  RC_ASSERT(verify::add_wrong_elements(rows, text));
  // Rows for which there is room are unchanged. The last of them contains what is left.
  std::size_t last = wrong.size();
  while (last > 0 && rows[last - 1].wrong == 5) --last;
  std::int64_t left = 0;
  for (std::size_t i = 0; i < wrong.size(); ++i) {
    left += rows[i].wrong - 5 - wrong[i];
    if (i + 1 < last) RC_ASSERT(rows[i].wrong == wrong[i] + 5);
  }
  RC_ASSERT(left == 0);
  if (verify::wrong_elements_text(rows_with(wrong), 100'000).size() > most) return;
  for (std::size_t i = 0; i < wrong.size(); ++i) RC_ASSERT(rows[i].wrong == wrong[i] + 5);
}

TEST(WrongElements, WhatIsNoTextOfTheseRowsAddsNothing) {
  BandwidthRows rows = rows_with({1, 2});
  const BandwidthRows before = rows;
  for (const char* text : {"", "{}", "7", "[1]", "[2,1]", "[-1,1]", "[0,-1]", "[0,1,1,1.5]", "[0,\"1\"]",
                           "[0,1", "[0,1,5,1]", "[0,99999999999999999999]"}) {
    EXPECT_FALSE(verify::add_wrong_elements(rows, text)) << text;
    EXPECT_EQ(rows, before) << text;
  }
  EXPECT_TRUE(verify::add_wrong_elements(rows, "[1,40]"));
  EXPECT_EQ(rows, rows_with({1, 42}));
}

}  // namespace
