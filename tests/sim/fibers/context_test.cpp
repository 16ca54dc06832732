// Proves that fiber contexts and thread contexts behave the same, that stacks are reused, and that a
// stack overflow is reported.

#include "sim/fibers/context.h"

#include <gtest/gtest.h>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "sim/base/error.h"
#include "sim/cpu/cpu_device.h"
#include "sim/world/simulate.h"

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

int deep(int levels) {
  volatile int here[64] = {levels};
  return levels == 0 ? 0 : deep(levels - 1) + here[0];
}

TEST(StackOverflowDeathTest, NamesTheRankAndWhatToTry) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the sanitizer reports it";
#endif
  for (const int threads : {1, 2}) {
    WorldSpec spec = world_of(4);
    spec.threads = threads;
    spec.stack_bytes = std::size_t{64} << 10;
    CpuDevice device;
    const auto program = [](Rank& rank) {
      rank.groups.world().barrier("before");
      if (rank.id == 3) rank.groups.world().split(deep(100'000), 0, "never");
    };
    EXPECT_EXIT(simulate(spec, device, program), testing::ExitedWithCode(3),
                "stack_overflow: rank 3 overflowed its stack of 65536 bytes(.|\n)*--stack-bytes");
  }
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
