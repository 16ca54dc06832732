// Proves that the world survives what a rank program may do wrong beyond its calls, or names the rank
// that did it: it uses objects of another rank, keeps objects beyond their life, or swallows or breaks
// the end of its world. The last part covers what the operating system may refuse.

#include <algorithm>
#include <fstream>
#include <gtest/gtest.h>
#include <memory>
#include <stdexcept>
#include <sys/resource.h>
#include <thread>
#include <unistd.h>
#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/lsan_interface.h>
#endif

#include "sim/base/error.h"
#include "sim/cpu/cpu_device.h"
#include "sim/world/simulate.h"
#include "sim/world/virtual_world.h"
#include "tests/support/refusal_code.h"

namespace {

using namespace sim;

Tensor ones(Rank& rank, std::int64_t count = 4) { return filled(rank.device, DType::f32, {count}, 1); }
Communicator& world(Rank& rank) { return rank.groups.world(); }

/// Runs the program with ranks as fibers and again as threads. Both runs must give the same findings.
void expect_findings(int ranks, const std::vector<std::string>& codes, const RankProgram& program,
                     std::int64_t call_limit = 1'000'000) {
#if defined(__SANITIZE_ADDRESS__)
  const __lsan::ScopedDisabler what_lies_on_the_stack_of_a_rank_that_is_given_up;
#endif
  for (const ContextKind contexts : {ContextKind::fiber, ContextKind::thread}) {
    CpuDevice device;
    WorldSpec spec = world_of(ranks);
    spec.contexts = contexts;
    spec.call_limit = call_limit;
    const RunReport report = simulate(spec, device, program);
    std::vector<std::string> found;
    for (const Finding& finding : report.findings) found.push_back(finding.code);
    EXPECT_EQ(found, codes) << report.failure();
  }
}

// ---- Objects of another rank ----

TEST(Misuse, ACommunicatorOfAnotherRank) {
  Communicator* of_rank_0 = nullptr;
  expect_findings(2, {"wrong_rank"}, [&](Rank& rank) {
    if (rank.id == 0) of_rank_0 = &world(rank);
    world(rank).barrier("first");
    if (rank.id == 0) world(rank).barrier("second");
    if (rank.id == 1) of_rank_0->barrier("of rank 0");
  });
}

TEST(Misuse, AWorkOfAnotherRank) {
  Work of_rank_0;
  expect_findings(2, {"wrong_rank", "pending_work"}, [&](Rank& rank) {
    if (rank.id == 0) of_rank_0 = world(rank).start_barrier("started by rank 0");
    if (rank.id == 1) of_rank_0.wait();
  });
}

TEST(Misuse, ATensorOfAnotherRank) {
  const auto with_tensor_of_rank_0 = [](const std::function<void(Rank&, Tensor&)>& use) {
    return [use, shared = std::make_shared<Tensor>()](Rank& rank) {
      if (rank.id == 0) *shared = ones(rank);
      world(rank).barrier("made");
      if (rank.id == 1) use(rank, *shared);
    };
  };
  expect_findings(2, {"wrong_device"}, with_tensor_of_rank_0([](Rank&, Tensor& x) { fill(x, 5); }));
  expect_findings(2, {"wrong_device"},
                  with_tensor_of_rank_0([](Rank& rank, Tensor& x) { rank.publish("x", x); }));
  expect_findings(2, {"wrong_device"}, with_tensor_of_rank_0([](Rank&, Tensor& x) { add(x, x); }));
}

TEST(Misuse, ARankOfAWorldInsideAWorldUsesTheOuterOne) {
  expect_findings(2, {"rank_threw"}, [](Rank& outer) {
    CpuDevice device;
    const RunReport report =
        simulate(world_of(2), device, [&](Rank&) { world(outer).barrier("from the inner world"); });
    ASSERT_FALSE(report.ok());
    EXPECT_EQ(report.findings.front().code, "wrong_rank");
    throw std::runtime_error("the inner world was refused");
  });
}

// ---- Objects that are kept for later ----

TEST(Misuse, ATensorOutlivesItsWorld) {
  CpuDevice device;
  Tensor kept;
  simulate(world_of(2), device, [&](Rank& rank) {
    if (rank.id == 1) kept = ones(rank, 3);
  });
  EXPECT_EQ(host_bytes(kept).size(), 12U);
  EXPECT_EQ(add(kept, kept).count(), 3);
}

TEST(Misuse, AWorkOutlivesItsWorld) {
  std::vector<Work> done(2);
  expect_findings(2, {"pending_work", "pending_work"}, [&](Rank& rank) {
    done[static_cast<std::size_t>(rank.id)] = world(rank).start_barrier("never waited for");
  });
  done[0].wait();
  Work undone;
  expect_findings(2, {"pending_work"}, [&](Rank& rank) {
    if (rank.id == 0) undone = world(rank).start_barrier("of one");
  });
  EXPECT_EQ(test::refusal_code([&] { undone.wait(); }), "wrong_rank");
}

TEST(Misuse, AWorkIsReplacedBeforeItsWait) {
  expect_findings(2, {"pending_work", "pending_work"}, [](Rank& rank) {
    std::vector<Work> works(100);
    for (Work& work : works) work = world(rank).start_barrier("replaced");
    for (Work& work : works) work = world(rank).start_barrier("waited for");
    for (Work& work : works) work.wait();
  });
}

TEST(Misuse, ACommunicatorOutlivesItsWorld) {
  CpuDevice device;
  std::unique_ptr<Communicator> kept;
  simulate(world_of(2), device, [&](Rank& rank) {
    auto part = world(rank).split(0, 0, "split");
    if (rank.id == 0) kept = std::move(part);
  });
  EXPECT_EQ(test::refusal_code([&] { kept->barrier("late"); }), "wrong_rank");
}

TEST(Misuse, ASiteWhoseNameIsMadeUp) {
  CpuDevice device;
  const RunReport report = simulate(world_of(2), device, [](Rank& rank) {
    for (int layer = 0; layer < 3; ++layer) {
      world(rank).barrier(
          Site::named("a name that is too long for a short string: " + std::to_string(layer)));
    }
  });
  ASSERT_EQ(report.ledger.size(), 3U);
  EXPECT_EQ(report.ledger[2].site, "a name that is too long for a short string: 2");
}

// ---- Ends that are broken or swallowed ----

TEST(Misuse, TheCallLimitIsSwallowed) {
  for (const int ranks : {1, 2}) {
    const auto program = [](Rank& rank) {
      for (;;) {
        try {
          world(rank).barrier("endless");
        } catch (const std::exception&) {
        }
      }
    };
    expect_findings(ranks, {"rank_will_not_end"}, program, 100);
  }
}

// A refused call has no record, so it has to be counted where it is refused.
TEST(Misuse, TheRefusalsOfBadCallsAreSwallowed) {
  const auto without_end = [](const std::function<void(Rank&)>& bad_call) {
    return [bad_call](Rank& rank) {
      for (;;) {
        try {
          bad_call(rank);
        } catch (const Error&) {
        }
      }
    };
  };
  // These name their rank, so each rank has a finding of its own.
  const std::vector<std::function<void(Rank&)>> calls_of_a_rank = {
      [](Rank& rank) { world(rank).broadcast(ones(rank), 2, "root of two"); },
      [](Rank& rank) { world(rank).all_reduce(Tensor(), ReduceOp::sum, "no tensor"); },
      [](Rank& rank) { rank.groups.get("no-such-kind"); },
      [](Rank& rank) {
        rank.groups.new_group("tp", {0, 1}, "a name of the layout");
      },
  };
  for (const auto& call : calls_of_a_rank)
    expect_findings(2, {"rank_will_not_end", "rank_will_not_end"}, without_end(call), 100);
  const std::vector<std::function<void(Rank&)>> others = {
      [](Rank& rank) { rank.publish("x", Tensor()); },
      [](Rank& rank) { add(ones(rank, 2), ones(rank, 3)); },
  };
  for (const auto& call : others) expect_findings(2, {"rank_will_not_end"}, without_end(call), 100);
}

TEST(Misuse, TheRefusalThatIsSwallowedIsNamed) {
  CpuDevice device;
  WorldSpec spec = world_of(1);
  spec.call_limit = 50;
#if defined(__SANITIZE_ADDRESS__)
  const __lsan::ScopedDisabler what_lies_on_the_stack_of_a_rank_that_is_given_up;
#endif
  int tries = 0;
  const RunReport report = simulate(spec, device, [&](Rank& rank) {
    for (;; ++tries) {
      try {
        world(rank).broadcast(ones(rank), 2, "root of two");
      } catch (const Error&) {
      }
    }
  });
  ASSERT_FALSE(report.ok());
  EXPECT_EQ(tries, spec.call_limit + kMostRefusals);
  EXPECT_NE(report.failure().find("the latest of call_root: world[0] = {0}, rank 0, broadcast 'root of two'"),
            std::string::npos)
      << report.failure();
}

// Refusals that a program catches, and that come to an end, change nothing.
TEST(Misuse, ARefusalThatIsCaughtNowAndThenIsNoFinding) {
  expect_findings(2, {}, [](Rank& rank) {
    for (int i = 0; i < 500; ++i) {
      EXPECT_EQ(test::refusal_code([&] { rank.groups.get("no-such-kind"); }), "no_such_group");
    }
    world(rank).barrier("at the end");
  });
}

TEST(Misuse, RanksThatThrowTheSameAreToldTogether) {
  CpuDevice device;
  const RunReport report = simulate(
      world_of(4), device, [](Rank& rank) { throw std::runtime_error(rank.id == 2 ? "odd" : "even"); });
  ASSERT_EQ(report.findings.size(), 2U) << report.failure();
  EXPECT_EQ(report.findings[0].sentence, "ranks 0, 1, 3: an exception left the program: even");
  EXPECT_EQ(report.findings[0].calls.size(), 3U);
  EXPECT_EQ(report.findings[1].sentence, "rank 2: an exception left the program: odd");
}

TEST(Misuse, ARankPublishesWithoutEnd) {
  CpuDevice device;
  WorldSpec spec = world_of(2);
  spec.publish_limit = 1 << 20;
  const auto endless = [](Rank& rank) {
    for (;;) rank.publish("a", ones(rank, 100));
  };
  const RunReport report = simulate(spec, device, endless);
  ASSERT_EQ(report.findings.size(), 1U);
  EXPECT_EQ(report.findings[0].code, "out_of_memory");
  EXPECT_TRUE(report.findings[0].sentence.starts_with(
      "ranks 0, 1: publish: 'a' has 400 bytes, and one rank may publish"))
      << report.failure();
  EXPECT_TRUE(report.ranks[0].published.empty());
#if defined(__SANITIZE_ADDRESS__)
  const __lsan::ScopedDisabler what_lies_on_the_stack_of_a_rank_that_is_given_up;
#endif
  // Long names take memory, too, and it is of no use to catch the refusal.
  const auto stubborn = [](Rank& rank) {
    for (;;) {
      try {
        rank.publish(std::string(1000, 'n'), ones(rank, 0));
      } catch (const std::exception&) {
      }
    }
  };
  EXPECT_EQ(simulate(spec, device, stubborn).findings.front().code, "rank_will_not_end");
}

struct NoText : std::exception {
  const char* what() const noexcept override { return nullptr; }
};

TEST(Misuse, WhatIsThrownIsStrange) {
  expect_findings(2, {"rank_threw"}, [](Rank& rank) {
    if (rank.id == 1) throw NoText();
  });
  expect_findings(2, {"rank_threw"}, [](Rank& rank) {
    if (rank.id == 1) throw WorldEnded();
  });
  expect_findings(2, {"rank_threw"}, RankProgram());
}

TEST(Misuse, ADestructorCallsWhileTheRankIsUnwound) {
  struct Barrier {
    Communicator& group;
    ~Barrier() { group.barrier("in a destructor"); }
  };
  expect_findings(2, {"missing_ranks"}, [](Rank& rank) {
    if (rank.id == 1) return;
    const Barrier at_end{world(rank)};
    world(rank).all_reduce(ones(rank), ReduceOp::sum, "alone");
  });
  expect_findings(2, {"collective_type_mismatch", "rank_threw"}, [](Rank& rank) {
    const Barrier at_end{world(rank)};
    if (rank.id == 1) throw std::runtime_error("planted");
    world(rank).all_reduce(ones(rank), ReduceOp::sum, "alone");
  });
}

TEST(Misuse, TheEndOfTheWorldMeetsNoexcept) {
  expect_findings(2, {"missing_ranks", "rank_terminated"}, [](Rank& rank) {
    const auto waits = [&]() noexcept { world(rank).barrier("in noexcept"); };
    if (rank.id == 0) waits();
  });
  expect_findings(2, {"rank_terminated"}, [](Rank& rank) {
    const auto throws = [&]() noexcept { rank.groups.get("no-such-kind"); };
    if (rank.id == 0) throws();
  });
}

// ---- What the operating system refuses ----

/// Exits with 0 when `work` is refused with `code` in a process that may map only 400 MiB more than it
/// has mapped.
void refused_in_a_small_process(const std::string& code, const std::function<void()>& work) {
  rlim_t mapped_pages = 0;
  std::ifstream("/proc/self/statm") >> mapped_pages;
  const rlim_t bytes = mapped_pages * static_cast<rlim_t>(sysconf(_SC_PAGESIZE)) + (rlim_t{400} << 20);
  const rlimit limit{bytes, bytes};
  setrlimit(RLIMIT_AS, &limit);
  const std::string got = test::refusal_code(work);
  if (got != code) std::fprintf(stderr, "refused with %s\n", got.c_str());
  std::_Exit(got == code ? 0 : 1);
}

void simulate_small(const WorldSpec& spec) {
  CpuDevice device;
  simulate(spec, device, [](Rank& rank) {
    if (rank.id != 0) return world(rank).barrier("never full");
    for (int i = 0; i < 100; ++i) world(rank).send(ones(rank, 1 << 21), 1, "eager");
  });
}

TEST(MisuseDeathTest, WhatTheSystemRefusesEndsTheWorldAndIsThrown) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer maps more than the process is to have";
#endif
  WorldSpec eager = world_of(2);
  eager.eager_bytes = std::int64_t{1} << 30;
  EXPECT_EXIT(refused_in_a_small_process("out_of_memory", [&] { simulate_small(eager); }),
              testing::ExitedWithCode(0), "");
  WorldSpec threads = world_of(1000);
  threads.contexts = ContextKind::thread;
  EXPECT_EXIT(refused_in_a_small_process("thread_limit", [&] { simulate_small(threads); }),
              testing::ExitedWithCode(0), "");
  WorldSpec workers = world_of(1000);
  workers.threads = 256;
  EXPECT_EXIT(refused_in_a_small_process("thread_limit", [&] { simulate_small(workers); }),
              testing::ExitedWithCode(0), "");
  const WorldSpec stacks = world_of(10'000);
  EXPECT_EXIT(refused_in_a_small_process("stack_memory", [&] { simulate_small(stacks); }),
              testing::ExitedWithCode(0), "");
}

/// Exits with 0 when a world of one rank in a small process ends with a finding of this code.
void found_in_a_small_process(const std::string& code, const RankProgram& program) {
  std::string found;
  refused_in_a_small_process("none", [&] {
    CpuDevice device;
    WorldSpec spec = world_of(1);
    spec.publish_limit = std::numeric_limits<std::int64_t>::max();
    found = simulate(spec, device, program).failure();
    if (!found.starts_with(code + ": ")) refuse({"another finding", "", found, "", ""});
  });
}

TEST(MisuseDeathTest, AProgramThatIsGivenNoMoreMemoryIsNamed) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer maps more than the process is to have";
#endif
  const auto publishes = [](Rank& rank) {
    for (;;) rank.publish("a", ones(rank, 1 << 20));
  };
  const auto keeps = [](Rank&) {
    std::vector<std::unique_ptr<std::vector<double>>> kept;
    for (;;) kept.push_back(std::make_unique<std::vector<double>>(1 << 20));
  };
  EXPECT_EXIT(found_in_a_small_process("out_of_memory", publishes), testing::ExitedWithCode(0), "");
  EXPECT_EXIT(found_in_a_small_process("out_of_memory", keeps), testing::ExitedWithCode(0), "");
}

TEST(Misuse, TextOfAnExceptionIsEscaped) {
  CpuDevice device;
  const RunReport report = simulate(world_of(2), device, [](Rank& rank) {
    if (rank.id == 0) throw std::runtime_error("\x1b[2Jcleared\nverified: 1 scenario");
    refuse({"own\rcode", "option",
            "\x9b"
            "1m\xc2\x9b",
            "rule", "hint\n  rank 7"});
  });
  const std::string all = report.failure() + text_of(report.findings.at(1), "");
  EXPECT_NE(all.find("left the program: \\x1b[2Jcleared\\nverified: 1 scenario\n"), std::string::npos) << all;
  EXPECT_NE(all.find("own\\x0dcode: rank 1: option: \\x9b1m\\xc2\\x9b\n"), std::string::npos) << all;
  EXPECT_NE(all.find("hint\\n  rank 7\n"), std::string::npos) << all;
  EXPECT_EQ(all.find_first_of("\x1b\r\x9b"), std::string::npos) << all;
}

TEST(Misuse, WorldsThatMakeNoSense) {
  WorldSpec schedule = world_of(2);
  schedule.schedule.policy = static_cast<SchedulePolicy>(7);
  EXPECT_EQ(test::refusal_code([&] { simulate_small(schedule); }), "world_spec");
  WorldSpec threads = world_of(kMostThreadRanks + 1);
  threads.contexts = ContextKind::thread;
  EXPECT_EQ(test::refusal_code([&] { simulate_small(threads); }), "world_spec");
}

}  // namespace
