// Proves that Slurm's host lists are read correctly, against lists compressed from known names.

#include "sim/launch/host_list.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "tests/support/refusal_code.h"

namespace {

using namespace sim;
using Names = std::vector<std::string>;

Names expanded(const std::string& list) { return expand_host_list("SLURM_STEP_NODELIST", list); }

TEST(HostList, AsSlurmPrintsThem) {
  EXPECT_EQ(expanded("n1"), Names{"n1"});
  EXPECT_EQ(expanded("n[01-03,7],g5"), (Names{"n01", "n02", "n03", "n7", "g5"}));
  EXPECT_EQ(expanded("n[098-101]-ib"), (Names{"n098-ib", "n099-ib", "n100-ib", "n101-ib"}));
  EXPECT_EQ(expanded("r[1-2]n[1-2]"), (Names{"r1n1", "r1n2", "r2n1", "r2n2"}));
  EXPECT_EQ(expand_tasks_per_node("SLURM_STEP_TASKS_PER_NODE", "4(x2),3"), (std::vector<int>{4, 4, 3}));
}

TEST(HostList, WhatIsNoneIsRefused) {
  for (const char* list : {"", ",", "a,", "a[", "a]", "a[1-2", "a[[1]]", "a[]", "a[2-1]", "a[x]", "a[1-]",
                           "a[1,]", "a[-1]", "a[1-9999999]", "a[0-999][0-9999]", "a[1]]", "a[1-2-3]"}) {
    EXPECT_EQ(test::refusal_code([&] { expanded(list); }), "host_list") << list;
  }
  for (const char* list : {"", "x", "2(", "2(x", "2(x)", "2(3)", "2(x3", "-1", "2(x99999999)", "2,,3"}) {
    EXPECT_EQ(test::refusal_code([&] { expand_tasks_per_node("SLURM_TASKS_PER_NODE", list); }), "host_list")
        << list;
  }
}

RC_GTEST_PROP(HostList, IsItsNames, ()) {
  Names names;
  std::string list;
  const int pieces = *rc::gen::inRange(1, 5);
  for (int i = 0; i < pieces; ++i) {
    const std::string begin = *rc::gen::element<std::string>("gpu", "node-1-", "a");
    const std::string end = *rc::gen::element<std::string>("", ".cluster", "b");
    std::string ranges;
    const int count = *rc::gen::inRange(1, 4);
    for (int k = 0; k < count; ++k) {
      const int first = *rc::gen::inRange(0, 120);
      const int last = first + *rc::gen::inRange(0, 12);
      const int width = *rc::gen::inRange(1, 5);
      for (int n = first; n <= last; ++n) {
        std::string digits = std::to_string(n);
        while (static_cast<int>(digits.size()) < width) digits.insert(0, "0");
        names.push_back(begin + digits + end);
      }
      ranges += fmt::format("{}{:0{}d}", k > 0 ? "," : "", first, width);
      if (last > first) ranges += fmt::format("-{:0{}d}", last, width);
    }
    list += fmt::format("{}{}[{}]{}", i > 0 ? "," : "", begin, ranges, end);
  }
  RC_ASSERT(expanded(list) == names);
}

RC_GTEST_PROP(HostList, AnyTextIsAListOrRefused, ()) {
  const auto text =
      *rc::gen::container<std::string>(rc::gen::element('a', '1', '0', '[', ']', ',', '-', '('));
  const std::string code = test::refusal_code([&] { RC_ASSERT(!expanded(text).empty()); });
  RC_ASSERT(code == "none" || code == "host_list");
}

}  // namespace
