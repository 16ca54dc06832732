// Proves that a list of blocks is the sequence of the elements that were added, less those that were removed.

#include "sim/comm/block_list.h"

#include <cstddef>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>
#include <utility>
#include <vector>

namespace {

using List = sim::BlockList<int, 4>;

std::vector<int> elements_of(const List& list) {
  std::vector<int> elements;
  for (std::size_t i = 0; i < list.size(); ++i) elements.push_back(list[i]);
  return elements;
}

RC_GTEST_PROP(BlockList, IsTheSequenceOfWhatWasAddedAndNotRemoved, ()) {
  List list;
  std::vector<int> elements;
  const auto steps = *rc::gen::inRange(0, 40);
  for (int step = 0; step < steps; ++step) {
    if (*rc::gen::inRange(0, 5) == 0) {
      const auto count = *rc::gen::inRange<std::size_t>(0, elements.size() + 1);
      list.remove_first(count);
      elements.erase(elements.begin(), elements.begin() + static_cast<std::ptrdiff_t>(count));
    } else {
      list.add() = step;
      elements.push_back(step);
    }
    if (!elements.empty()) {
      const auto changed = *rc::gen::inRange<std::size_t>(0, elements.size());
      list[changed] += 100;
      elements[changed] += 100;
    }
    RC_ASSERT(list.empty() == elements.empty());
    RC_ASSERT(elements_of(list) == elements);
  }
}

TEST(BlockList, ACopyIsApartAndWhatIsMovedIsGone) {
  List list;
  for (int i = 0; i < 6; ++i) list.add() = i;
  list.remove_first(1);
  List copy = list;
  copy[0] = 7;
  copy.add() = 8;
  EXPECT_EQ(elements_of(list), (std::vector<int>{1, 2, 3, 4, 5}));
  EXPECT_EQ(elements_of(copy), (std::vector<int>{7, 2, 3, 4, 5, 8}));
  List taken = std::exchange(list, {});
  EXPECT_TRUE(list.empty());
  EXPECT_EQ(elements_of(taken), (std::vector<int>{1, 2, 3, 4, 5}));
  list.add() = 9;
  EXPECT_EQ(elements_of(list), (std::vector<int>{9}));
}

TEST(BlockList, BlocksOfListsThatAreGoneAreEmptyAgain) {
  for (int round = 0; round < 3; ++round) {
    std::vector<List> lists(100);
    for (List& list : lists) {
      for (int i = 0; i < 9; ++i) {
        EXPECT_EQ(list.add(), 0);
        list[static_cast<std::size_t>(i)] = 7;
      }
    }
  }
}

TEST(BlockList, AnElementStaysWhereItIsWhileTheListGrows) {
  List list;
  list.add() = 1;
  const int* first = &list[0];
  for (int i = 0; i < 100; ++i) list.add() = i;
  EXPECT_EQ(first, &list[0]);
}

}  // namespace
