// Proves that a rank whose program ends the process, by an exit, by a signal or by an overflow of its stack,
// is named with its last call, that the exit code is then 3, and that everything else in the process ends as
// it did.

#include "sim/world/process_end.h"

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdlib>
#include <functional>
#include <gtest/gtest.h>
#include <stdexcept>
#include <string>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include "sim/cpu/cpu_device.h"
#include "sim/world/simulate.h"
#include "tests/support/refusal_code.h"

namespace {

using namespace sim;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define ONLY_WITHOUT_A_SANITIZER() GTEST_SKIP() << "signals and _exit() are the sanitizer's"
#else
#define ONLY_WITHOUT_A_SANITIZER() static_cast<void>(0)
#endif

constexpr const char* kLastCall =
    "\n  rank 3     made as its last call barrier, call 0 of world\\[0\\], at 'before' "
    "\\(tests/sim/world/process_end_test.cpp:[0-9]+\\)\n  rule ";

/// The kinds of ranks, on one thread and on two.
std::vector<WorldSpec> specs() {
  std::vector<WorldSpec> all;
  for (const ContextKind contexts : {ContextKind::fiber, ContextKind::thread}) {
    for (const int threads : {1, 2}) {
      WorldSpec spec = world_of(4);
      spec.contexts = contexts;
      spec.threads = threads;
      spec.stack_bytes = std::size_t{64} << 10;
      all.push_back(spec);
    }
  }
  return all;
}

/// Runs a world in which rank 3 calls a barrier and then does this.
void simulate_with(const WorldSpec& spec, const std::function<void(Rank&)>& end) {
  CpuDevice device;
  simulate(spec, device, [&](Rank& rank) {
    rank.groups.world().barrier("before");
    if (rank.id == 3) end(rank);
    rank.groups.world().barrier("after");
  });
}

/// Expects that rank 3 is named in a line that begins so, with its last call, in every kind of world.
void expect_named(const std::string& line, const std::function<void(Rank&)>& end) {
  for (const WorldSpec& spec : specs()) {
    EXPECT_EXIT(simulate_with(spec, end), testing::ExitedWithCode(3), line + ".*" + kLastCall);
  }
}

// ---- exits ----

TEST(ProcessEndDeathTest, ARankThatExitsIsNamed) {
  expect_named("rank_exited: rank 3 called exit\\(\\) before the run was over", [](Rank&) { std::exit(0); });
  expect_named("rank_exited: rank 3 called exit\\(\\) before the run was over", [](Rank&) { std::exit(7); });
  expect_named("rank_exited: rank 3 called quick_exit\\(\\)", [](Rank&) { std::quick_exit(0); });
}

TEST(ProcessEndDeathTest, ARankThatExitsAtOnceIsNamed) {
  ONLY_WITHOUT_A_SANITIZER();
  expect_named("rank_exited: rank 3 called _exit\\(\\)", [](Rank&) { _exit(0); });
  expect_named("rank_exited: rank 3 called _Exit\\(\\)", [](Rank&) { std::_Exit(0); });
}

TEST(ProcessEndDeathTest, AThreadOfARankThatExitsIsToldOf) {
  const auto in_a_thread = [](Rank&) { std::thread([] { std::exit(0); }).join(); };
  EXPECT_EXIT(simulate_with(world_of(4), in_a_thread), testing::ExitedWithCode(3),
              "rank_exited: a thread that runs no rank called exit\\(\\) before the run was over\n  rule ");
}

TEST(ProcessEndDeathTest, AThreadOfARankThatThrowsIsToldOf) {
  const auto in_a_thread = [](Rank&) { std::thread([] { throw std::runtime_error("of a thread"); }).join(); };
  EXPECT_EXIT(
      simulate_with(world_of(4), in_a_thread), testing::ExitedWithCode(3),
      "rank_terminated: a thread that runs no rank called std::terminate\\(\\), because an exception left "
      "it: of a thread\n  rule ");
}

TEST(ProcessEndDeathTest, WorkWithANameIsNamed) {
  ONLY_WITHOUT_A_SANITIZER();
  const auto work = [] {
    const ProcessEndWatch watch;
    const NamedWork name("the reference of mlp at tp 2");
    std::raise(SIGFPE);
  };
  EXPECT_EXIT(work(), testing::ExitedWithCode(3),
              "work_crashed: the reference of mlp at tp 2 received SIGFPE.*\n  rule ");
}

TEST(ProcessEndDeathTest, AThreadOfARankThatFailsKeepsItsCode) {
  ONLY_WITHOUT_A_SANITIZER();  // a sanitizer reports what the ranks leave behind, with a code of its own
  const auto that_fails = [](Rank&) { std::thread([] { std::exit(9); }).join(); };
  EXPECT_EXIT(simulate_with(world_of(4), that_fails), testing::ExitedWithCode(9), "");
}

TEST(ProcessEndDeathTest, AnExitBeforeOrAfterTheRanksIsAnExit) {
  const auto after = [] {
    simulate_with(world_of(4), [](Rank&) {});
    std::exit(0);
  };
  EXPECT_EXIT(after(), testing::ExitedWithCode(0), "");
  EXPECT_EXIT(std::_Exit(5), testing::ExitedWithCode(5), "");
}

TEST(ProcessEnd, AChildProcessOfARankEndsAsItWants) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the sanitizer does not follow a fork";
#endif
  for (const bool at_once : {false, true}) {
    int status = -1;
    simulate_with(world_of(4), [&](Rank&) {
      const pid_t child = fork();
      if (child == 0 && at_once) _exit(0);
      if (child == 0) std::quick_exit(0);
      waitpid(child, &status, 0);
    });
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  }
}

// ---- signals ----

TEST(ProcessEndDeathTest, ARankThatComesToASignalIsNamed) {
  ONLY_WITHOUT_A_SANITIZER();
  volatile int zero = 0;
  int* volatile nowhere = nullptr;
  expect_named("rank_crashed: rank 3 received SIGSEGV", [&](Rank&) { *nowhere = 1; });
  expect_named("rank_crashed: rank 3 received SIGFPE", [&](Rank&) { zero = 7 / zero; });
  expect_named("rank_crashed: rank 3 received SIGABRT", [](Rank&) { std::abort(); });
  for (const auto& [signal, name] : {std::pair(SIGBUS, "SIGBUS"), std::pair(SIGILL, "SIGILL")}) {
    expect_named(std::string("rank_crashed: rank 3 received ") + name, [&](Rank&) { raise(signal); });
  }
}

constexpr std::array kSignals = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};

void end_with_9(int) { _exit(9); }

TEST(ProcessEndDeathTest, AHandlerOfTheProgramGetsTheSignal) {
  ONLY_WITHOUT_A_SANITIZER();
  int* volatile nowhere = nullptr;
  const auto with_own_handlers = [](const std::function<void(Rank&)>& end) {
    for (const int signal : kSignals) std::signal(signal, end_with_9);
    simulate_with(world_of(4), end);
  };
  EXPECT_EXIT(with_own_handlers([&](Rank&) { std::thread([&] { *nowhere = 1; }).join(); }),
              testing::ExitedWithCode(9), "");
  // The rank is named first. Then the handler ends the process while a rank still runs, so that the exit code
  // is 3.
  EXPECT_EXIT(with_own_handlers([&](Rank&) { *nowhere = 1; }), testing::ExitedWithCode(3),
              "rank_crashed: rank 3 received SIGSEGV(.|\n)*rank_exited: rank 3 called _exit");
}

TEST(ProcessEndDeathTest, ASignalOfNoRankIsLeftAlone) {
  ONLY_WITHOUT_A_SANITIZER();
  EXPECT_EXIT(simulate_with(world_of(4), [](Rank&) { std::thread([] { std::abort(); }).join(); }),
              testing::KilledBySignal(SIGABRT), "");
  const auto after = [] {
    simulate_with(world_of(4), [](Rank&) {});
    raise(SIGSEGV);
  };
  EXPECT_EXIT(after(), testing::KilledBySignal(SIGSEGV), "");
}

void ignore(int) {}

TEST(ProcessEnd, HandlersAreThoseOfBefore) {
  std::array<struct sigaction, kSignals.size()> before{};
  struct sigaction own {};
  own.sa_handler = ignore;
  for (std::size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i], &own, &before[i]);
  simulate_with(world_of(4), [](Rank&) {
    simulate_with(world_of(4), [](Rank&) {});  // a world inside a world
  });
  for (std::size_t i = 0; i < kSignals.size(); ++i) {
    struct sigaction after {};
    sigaction(kSignals[i], &before[i], &after);
    EXPECT_EQ(after.sa_handler, ignore);
  }
}

TEST(ProcessEnd, AHandlerThatTheProgramInstallsStays) {
  ONLY_WITHOUT_A_SANITIZER();
  struct sigaction before {};
  sigaction(SIGFPE, nullptr, &before);
  simulate_with(world_of(4), [](Rank&) { std::signal(SIGFPE, ignore); });
  struct sigaction after {};
  sigaction(SIGFPE, &before, &after);
  EXPECT_EQ(after.sa_handler, ignore);
}

// ---- overflows ----

int deep(int levels) {
  volatile int here[64] = {levels};
  return levels == 0 ? 0 : deep(levels - 1) + here[0];
}

TEST(ProcessEndDeathTest, AnOverflowIsNamed) {
  ONLY_WITHOUT_A_SANITIZER();
  expect_named("stack_overflow: rank 3 overflowed its stack of [0-9]+ bytes",
               [](Rank& rank) { rank.groups.world().split(deep(100'000), 0, "never"); });
}

TEST(ProcessEndDeathTest, AnOverflowAfterAWorldInsideTheRankIsNamed) {
  ONLY_WITHOUT_A_SANITIZER();
  expect_named("stack_overflow: rank 3 overflowed its stack", [](Rank& rank) {
    simulate_with(world_of(4), [](Rank&) {});
    rank.groups.world().split(deep(100'000), 0, "never");
  });
}

/// A frame of 3 MiB, which steps over the guard of 1 MiB. This file is compiled with
/// -fstack-clash-protection.
[[gnu::noinline]] char large_frame(std::size_t at) {
  volatile char frame[3 << 20];
  frame[at] = 1;
  return frame[at];
}

TEST(ProcessEndDeathTest, AFrameLargerThanTheGuardIsNamed) {
  ONLY_WITHOUT_A_SANITIZER();
  for (WorldSpec spec : specs()) {
    if (spec.contexts == ContextKind::thread) continue;  // its stack has room for the frame
    EXPECT_EXIT(simulate_with(spec,
                              [](Rank& rank) {
                                rank.publish("x", filled(rank.device, DType::f32, {1}, large_frame(7)));
                              }),
                testing::ExitedWithCode(3), "stack_overflow: rank 3 overflowed its stack of 65536 bytes");
  }
}

/// The same frame without the protection: the rank is found where it makes its next call.
[[gnu::noinline, gnu::optimize("no-stack-clash-protection")]] void call_in_large_frame(Rank& rank) {
  volatile char frame[3 << 20];
  frame[(3 << 20) - 1] = 1;
  if (frame[(3 << 20) - 1] == 1) rank.groups.world().barrier("in a large frame");
}

TEST(ProcessEndDeathTest, ACallInAFrameLargerThanTheGuardIsNamed) {
  ONLY_WITHOUT_A_SANITIZER();
  WorldSpec spec = world_of(4);
  spec.stack_bytes = std::size_t{64} << 10;
  EXPECT_EXIT(simulate_with(spec, call_in_large_frame), testing::ExitedWithCode(3),
              "rank 3 (overflowed its stack|received SIGSEGV)");
}

}  // namespace
