// Proves that the dimensions of a setting are a map: each name has one number, and names are in their order.

#include "verify/cases/dimensions.h"

#include <gtest/gtest.h>
#include <map>
#include <rapidcheck/gtest.h>
#include <string>
#include <utility>
#include <vector>

namespace {

using verify::Dimensions;

RC_GTEST_PROP(Dimensions, AreAMap, ()) {
  using Entry = std::pair<std::string, std::int64_t>;
  const auto name = rc::gen::element<std::string>("tokens", "hidden", "heads", "vocabulary", "tp", "to", "");
  const auto entries =
      *rc::gen::container<std::vector<Entry>>(rc::gen::pair(name, rc::gen::inRange<std::int64_t>(0, 5)));
  const bool replaces = *rc::gen::arbitrary<bool>();
  std::map<std::string, std::int64_t, std::less<>> expected;
  Dimensions dimensions;
  for (const auto& [key, value] : entries) {
    const bool is_new = expected.emplace(key, value).second;
    RC_ASSERT(dimensions.emplace(key, value).second == is_new);
    if (replaces) expected[key] = dimensions[key] = value + 1;
  }
  RC_ASSERT((std::vector<Entry>(dimensions.begin(), dimensions.end()) ==
             std::vector<Entry>(expected.begin(), expected.end())));
  const std::string wanted = *name;
  RC_ASSERT(dimensions.contains(wanted) == expected.contains(wanted));
  if (expected.contains(wanted)) {
    RC_ASSERT(dimensions.at(wanted) == expected.at(wanted));
  } else {
    RC_ASSERT_THROWS_AS(static_cast<void>(dimensions.at(wanted)), std::out_of_range);
  }
}

}  // namespace
