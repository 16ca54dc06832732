// Proves that results which scenarios have in common are computed once, and that an error is not kept.

#include <atomic>
#include <future>
#include <gtest/gtest.h>
#include <stdexcept>
#include <vector>

#include "verify/checks/proved_settings.h"

namespace {

using verify::SharedResults;

TEST(SharedResults, AreComputedOnceForAllThreads) {
  constexpr int kThreads = 4, kKeys = 50;
  SharedResults<int> results;
  std::atomic<int> computed = 0;
  const auto ask_for_all = [&] {
    std::vector<int> told;
    for (int key = 0; key < kKeys; ++key) {
      told.push_back(results.get(std::to_string(key), [&] {
        ++computed;
        return 2 * key;
      }));
    }
    return told;
  };
  std::vector<std::future<std::vector<int>>> threads;
  for (int i = 0; i < kThreads; ++i) threads.push_back(std::async(std::launch::async, ask_for_all));
  for (auto& thread : threads) {
    const std::vector<int> told = thread.get();
    for (int key = 0; key < kKeys; ++key) EXPECT_EQ(told[static_cast<std::size_t>(key)], 2 * key);
  }
  EXPECT_EQ(computed, kKeys);
}

TEST(SharedResults, ThatAreBegunAreLeftToTheThreadThatComputesThem) {
  SharedResults<int> results;
  std::promise<void> goes_on;
  std::promise<void> has_begun;
  std::future<int> other = std::async(std::launch::async, [&] {
    return results.get("one", [&] {
      has_begun.set_value();
      goes_on.get_future().wait();
      return 1;
    });
  });
  has_begun.get_future().wait();
  const auto must_not_run = [] {
    ADD_FAILURE() << "computed twice";
    return 0;
  };
  EXPECT_EQ(results.get_unless_begun("one", must_not_run), std::nullopt);
  EXPECT_EQ(results.get_unless_begun("two", [] { return 2; }), 2);
  goes_on.set_value();
  EXPECT_EQ(results.get("one", must_not_run), 1);
  EXPECT_EQ(results.get_unless_begun("one", must_not_run), 1);
  EXPECT_EQ(other.get(), 1);
}

TEST(SharedResults, OfAComputationThatThrowsAreComputedAgain) {
  SharedResults<int> results;
  EXPECT_THROW(results.get("one", []() -> int { throw std::runtime_error("no memory"); }),
               std::runtime_error);
  EXPECT_EQ(results.get("one", [] { return 1; }), 1);
}

}  // namespace
