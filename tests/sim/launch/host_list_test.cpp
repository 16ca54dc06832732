// Proves that Slurm's host lists are read correctly, against lists compressed from known names.

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "sim/launch/launch.h"
#include "tests/support/refusal_code.h"

namespace {

using namespace sim;

std::string first_of(const std::string& list) { return first_host("SLURM_STEP_NODELIST", list); }

TEST(HostList, AsSlurmPrintsThem) {
  EXPECT_EQ(first_of("n1"), "n1");
  EXPECT_EQ(first_of("n[01-03,7],g5"), "n01");
  EXPECT_EQ(first_of("n[098-101]-ib"), "n098-ib");
  EXPECT_EQ(first_of("r[1-2]n[3-4]"), "r1n3");
  EXPECT_EQ(expand_tasks_per_node("SLURM_STEP_TASKS_PER_NODE", "4(x2),3"), (std::vector<int>{4, 4, 3}));
}

TEST(HostList, WhatIsNoneIsRefused) {
  for (const char* list : {"", ",", "a,", "a[", "a]", "a[1-2", "a[[1]]", "a[]", "a[2-1]", "a[x]", "a[1-]",
                           "a[1,]", "a[-1]", "a[1-9999999999]", "b,a[0-999]]", "a[1]]", "a[1-2-3]"}) {
    EXPECT_EQ(test::refusal_code([&] { first_of(list); }), "host_list") << list;
  }
  for (const char* list : {"", "x", "2(", "2(x", "2(x)", "2(3)", "2(x3", "-1", "2(x99999999)", "2,,3"}) {
    EXPECT_EQ(test::refusal_code([&] { expand_tasks_per_node("SLURM_TASKS_PER_NODE", list); }), "host_list")
        << list;
  }
}

RC_GTEST_PROP(HostList, BeginsWithItsFirstName, ()) {
  std::string first, list;
  const int pieces = *rc::gen::inRange(1, 5);
  for (int i = 0; i < pieces; ++i) {
    const std::string begin = *rc::gen::element<std::string>("gpu", "node-1-", "a");
    const std::string end = *rc::gen::element<std::string>("", ".cluster", "b");
    std::string ranges;
    const int count = *rc::gen::inRange(1, 4);
    for (int k = 0; k < count; ++k) {
      const int low = *rc::gen::inRange(0, 120);
      const int high = low + *rc::gen::inRange(0, 12);
      const int width = *rc::gen::inRange(1, 5);
      if (first.empty()) first = fmt::format("{}{:0{}d}{}", begin, low, width, end);
      ranges += fmt::format("{}{:0{}d}", k > 0 ? "," : "", low, width);
      if (high > low) ranges += fmt::format("-{:0{}d}", high, width);
    }
    list += fmt::format("{}{}[{}]{}", i > 0 ? "," : "", begin, ranges, end);
  }
  RC_ASSERT(first_of(list) == first);
}

RC_GTEST_PROP(HostList, AnyTextIsAListOrRefused, ()) {
  const auto text =
      *rc::gen::container<std::string>(rc::gen::element('a', '1', '0', '[', ']', ',', '-', '('));
  const std::string code = test::refusal_code([&] { RC_ASSERT(!first_of(text).empty()); });
  RC_ASSERT(code == "none" || code == "host_list");
}

}  // namespace
