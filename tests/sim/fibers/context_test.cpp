// Proves that fiber contexts and thread contexts behave the same, that stacks are reused, and that a body
// knows its stack.

#include "sim/fibers/context.h"

#include <cstddef>
#include <functional>
#include <gtest/gtest.h>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "sim/base/error.h"
#include "sim/fibers/fiber_context.h"
#include "sim/fibers/running_stack.h"

namespace {

using namespace sim;

class Contexts : public testing::TestWithParam<ContextKind> {};

TEST_P(Contexts, BodyRunsBetweenYields) {
  StackPool stacks(kDefaultStackBytes, true, 1);
  std::string events;
  std::unique_ptr<Context> context;
  context = make_context(GetParam(), stacks, 0, [&] {
    events += "a";
    context->yield();
    events += "b";
    context->yield();
    events += "c";
  });
  while (!context->ended()) {
    context->resume();
    events += "|";
  }
  EXPECT_EQ(events, "a|b|c|");
}

// Each context catches, rethrows and inspects exceptions while other contexts are inside their own catch
// blocks.
TEST_P(Contexts, YieldInsideACatchBlock) {
  StackPool stacks(kDefaultStackBytes, true, 8);
  std::vector<std::unique_ptr<Context>> contexts(8);
  std::vector<std::string> caught(contexts.size());
  for (std::size_t i = 0; i < contexts.size(); ++i) {
    contexts[i] = make_context(GetParam(), stacks, 0, [&, i] {
      try {
        throw std::runtime_error(std::to_string(i));
      } catch (const std::exception&) {
        contexts[i]->yield();
        try {
          throw std::logic_error("inner");
        } catch (const std::logic_error&) {
          contexts[i]->yield();
        }
        contexts[i]->yield();
        try {
          throw;
        } catch (const std::runtime_error& again) {
          caught[i] = again.what();
        }
      }
    });
  }
  for (int round = 0; round < 4; ++round) {
    for (std::size_t i = 0; i < contexts.size(); ++i) contexts[(i * 3 + 1) % contexts.size()]->resume();
  }
  for (std::size_t i = 0; i < contexts.size(); ++i) {
    EXPECT_TRUE(contexts[i]->ended());
    EXPECT_EQ(caught[i], std::to_string(i));
  }
  EXPECT_EQ(std::current_exception(), nullptr);
  EXPECT_EQ(std::uncaught_exceptions(), 0);
}

TEST_P(Contexts, ResumedByOneThreadAfterAnother) {
  StackPool stacks(kDefaultStackBytes, true, 1);
  int steps = 0;
  std::unique_ptr<Context> context;
  context = make_context(GetParam(), stacks, 0, [&] {
    for (; steps < 3; ++steps) context->yield();
  });
  while (!context->ended()) std::thread([&] { context->resume(); }).join();
  EXPECT_EQ(steps, 3);
}

/// Three fibers, each of which starts and yields to the worker, and then does `body`.
struct ThreeFibers {
  explicit ThreeFibers(const std::function<void(std::size_t)>& body) {
    for (std::size_t i = 0; i < 3; ++i) {
      fibers.push_back(std::make_unique<FiberContext>(stacks, [this, i, body] {
        fibers[i]->yield();
        body(i);
      }));
    }
    for (const auto& fiber : fibers) fiber->resume();
  }
  /// The next fiber takes over; from the last one the worker does.
  void pass_on(std::size_t i) {
    if (i + 1 == fibers.size()) return fibers[i]->yield();
    fibers[i]->yield_to(*fibers[i + 1]);
  }
  void finish() {
    for (const auto& fiber : fibers) fiber->resume();
    for (const auto& fiber : fibers) EXPECT_TRUE(fiber->ended());
  }

  StackPool stacks = StackPool(kDefaultStackBytes, true, 3);
  std::vector<std::unique_ptr<FiberContext>> fibers;
};

TEST(FiberContexts, ABodyTakesOverFromOneThatYieldsToIt) {
  if (kSanitized) GTEST_SKIP() << "only workers switch in a build for sanitizers";
  std::string events;
  ThreeFibers* all = nullptr;
  ThreeFibers three([&](std::size_t i) {
    events += static_cast<char>('a' + i);
    all->pass_on(i);
    events += static_cast<char>('A' + i);
  });
  all = &three;
  const std::byte* const stack = running_stack().bottom;
  three.fibers.front()->resume();  // one resume() of a worker runs all three
  EXPECT_EQ(events, "abc");
  EXPECT_EQ(running_stack().bottom, stack);
  for (const auto& fiber : three.fibers) EXPECT_FALSE(fiber->ended());
  three.finish();
  EXPECT_EQ(events, "abcABC");
  EXPECT_FALSE(three.fibers.front()->can_take_over());
}

/// A body that ends after it has taken over gives its own stack back, and the worker goes on.
TEST(FiberContexts, ABodyThatTakesOverMayEnd) {
  if (kSanitized) GTEST_SKIP() << "only workers switch in a build for sanitizers";
  StackPool stacks(kDefaultStackBytes, true, 2);
  std::unique_ptr<FiberContext> first, second;
  const std::byte* of_second = nullptr;
  second = std::make_unique<FiberContext>(stacks, [&] {
    of_second = running_stack().bottom;
    second->yield();
  });
  first = std::make_unique<FiberContext>(stacks, [&] { first->yield_to(*second); });
  second->resume();
  first->resume();
  EXPECT_TRUE(second->ended());
  EXPECT_FALSE(first->ended());
  EXPECT_EQ(stacks.take().bottom, of_second);
  first->resume();
  EXPECT_TRUE(first->ended());
}

/// Each body keeps the exception that it handles, and the worker its own, while others take over.
TEST(FiberContexts, ABodyThatTakesOverHasItsOwnExceptions) {
  if (kSanitized) GTEST_SKIP() << "only workers switch in a build for sanitizers";
  std::vector<std::string> caught(3);
  ThreeFibers* all = nullptr;
  ThreeFibers three([&](std::size_t i) {
    try {
      throw std::runtime_error(std::to_string(i));
    } catch (const std::exception&) {
      all->pass_on(i);
      try {
        throw;
      } catch (const std::runtime_error& again) {
        caught[i] = again.what();
      }
    }
  });
  all = &three;
  try {
    throw std::logic_error("the worker's");
  } catch (const std::logic_error&) {
    three.fibers.front()->resume();
    three.finish();
    EXPECT_THROW(throw, std::logic_error);
  }
  EXPECT_EQ(caught, (std::vector<std::string>{"0", "1", "2"}));
}

INSTANTIATE_TEST_SUITE_P(Both, Contexts, testing::Values(ContextKind::fiber, ContextKind::thread),
                         [](const auto& kind) {
                           return kind.param == ContextKind::fiber ? "fiber" : "thread";
                         });

TEST(StackPool, HandsOutAgainWhatCameBackLast) {
  StackPool stacks(1, true, 3);
  EXPECT_TRUE(stacks.guarded());
  const Stack a = stacks.take();
  const Stack b = stacks.take();
  EXPECT_GE(a.bytes, 4096U);
  EXPECT_TRUE(a.top() <= b.bottom || b.top() <= a.bottom);
  stacks.give_back(a);
  stacks.give_back(b);
  EXPECT_EQ(stacks.take().bottom, b.bottom);
  EXPECT_EQ(stacks.take().bottom, a.bottom);
}

TEST(StackPoolDeathTest, AGuardedStackStopsWhatRunsOver) {
  StackPool stacks(1 << 16, true, 2);
  stacks.take();
  const Stack above = stacks.take();
  EXPECT_DEATH(*(reinterpret_cast<volatile char*>(above.bottom) - 1) = 1, "");
}

TEST(StackPool, AnOverflowIsToldByItsAddress) {
  StackPool stacks(1 << 16, true, 1);
  const Stack stack = stacks.take();
  EXPECT_TRUE(is_in_guard(stack, stack.bottom - 1));
  EXPECT_TRUE(is_in_guard(stack, stack.bottom - kGuardBytes));
  EXPECT_FALSE(is_in_guard(stack, stack.bottom - kGuardBytes - 1));
  EXPECT_FALSE(is_in_guard(stack, stack.bottom));
  EXPECT_FALSE(is_in_guard(Stack(), nullptr));
}

TEST_P(Contexts, TheBodyKnowsItsStack) {
  StackPool stacks(kDefaultStackBytes, true, 1);
  bool is_inside = false;
  const auto context = make_context(GetParam(), stacks, 0, [&] {
    const auto* here = reinterpret_cast<const std::byte*>(__builtin_frame_address(0));
    is_inside = here >= running_stack().bottom && here < running_stack().top();
  });
  context->resume();
  EXPECT_TRUE(is_inside);
  EXPECT_EQ(running_stack().bottom, nullptr);
}

TEST(StackPool, MemoryThatIsNotThereIsRefused) {
  StackPool stacks(std::size_t{1} << 46, false, 64);
  try {
    stacks.take();
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.refusal().code, "stack_memory");
  }
}

}  // namespace
