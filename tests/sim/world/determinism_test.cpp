// Proves with random programs of collectives on random layouts that neither schedule, threads nor
// contexts change a result, and that the same seed gives the same schedule.

#include <gtest/gtest.h>
#include <map>
#include <rapidcheck/gtest.h>
#include <set>
#include <string>
#include <vector>

#include "sim/cpu/cpu_device.h"
#include "sim/world/simulate.h"
#include "tests/support/layout_generator.h"

namespace {

using namespace sim;

/// One step of a program that is correct in any layout: one call on each group of one kind.
struct Step {
  std::string kind;
  int call;
  std::int64_t count;
};

void take(Rank& rank, const Step& step, int number) {
  Communicator* group = rank.groups.find(step.kind);
  if (group == nullptr) return;  // not every rank is in an embd or pos_embd group
  const int n = group->size();
  const KeyedRandom random = rank.random.named(step.kind);
  const auto own = [&](std::int64_t count) {
    return keyed(rank.device, DType::f32, {count}, random, (number * 100'000 + rank.id) * 64);
  };
  Tensor out = own(step.count);
  switch (step.call) {
    case 0:
      group->all_reduce(out, ReduceOp::sum, "step.all_reduce");
      break;
    case 1:
      out = own(step.count * n);
      group->all_gather(own(step.count), out, "step.all_gather");
      break;
    case 2:
      group->reduce_scatter(own(step.count * n), out, ReduceOp::average, "step.reduce_scatter");
      break;
    case 3:
      out = own(step.count * n);
      group->all_to_all(own(step.count * n), out, "step.all_to_all");
      break;
    case 4: {
      Work work = group->start_broadcast(out, number % n, "step.broadcast");
      group->barrier("step.barrier");
      work.wait();
      break;
    }
    default: {
      if (n == 1) break;
      const Tensor sent = own(step.count);
      Work receive = group->start_recv(out, (group->rank() + n - 1) % n, "step.recv");
      group->send(sent, (group->rank() + 1) % n, "step.send");
      receive.wait();
    }
  }
  rank.publish("out", out);
}

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr std::uint64_t kSchedules = 10;  // sanitizers are slow, and look for other errors
#else
constexpr std::uint64_t kSchedules = 100;
#endif

ParallelSizes drawn_sizes() {
  const ParallelSizes sizes = *rc::gen::suchThat(test::accepted_megatron_sizes(),
                                                 [](const ParallelSizes& s) { return s.world_size <= 16; });
  return sizes;
}

RC_GTEST_PROP(Determinism, NothingButTheProgramReachesAResult, ()) {
  const WorldSpec plain{.layout = make_layout(drawn_sizes(), RuleBook::megatron)};
  std::vector<Step> steps;
  const int count = *rc::gen::inRange(1, 6);
  for (int i = 0; i < count; ++i) {
    const auto kind = *rc::gen::inRange<std::size_t>(0, plain.layout.kinds.size());
    steps.push_back(
        {plain.layout.kinds[kind].name(), *rc::gen::inRange(0, 6), *rc::gen::inRange<std::int64_t>(0, 5)});
  }
  const auto program = [&](Rank& rank) {
    for (std::size_t i = 0; i < steps.size(); ++i) take(rank, steps[i], static_cast<int>(i));
  };
  CpuDevice device;
  const RunReport first = simulate(plain, device, program);
  if (!first.ok()) RC_FAIL(first.failure());
  const auto seed = *rc::gen::arbitrary<std::uint64_t>();
  for (std::uint64_t i = 0; i < kSchedules; ++i) {
    WorldSpec spec = plain;
    spec.schedule = {.policy = i % 2 == 0 ? SchedulePolicy::uniform : SchedulePolicy::pct, .seed = seed + i};
    spec.threads = i % 10 == 0 ? 2 : i % 10 == 1 ? 4 : 1;
    if (i % 25 == 2) spec.contexts = ContextKind::thread;
    const RunReport report = simulate(spec, device, program);
    RC_ASSERT(report.run_hash == first.run_hash);
    if (i % 10 != 0) continue;
    spec.threads = 1;
    const RunReport again = simulate(spec, device, program);
    RC_ASSERT(again.schedule_hash == report.schedule_hash);
    RC_ASSERT(again.run_hash == first.run_hash);
  }
}

TEST(Determinism, TheRunHashSeesValuesAndCalls) {
  CpuDevice device;
  const auto hash_of = [&](double value, const char* site) {
    return simulate(world_of(2), device,
                    [&](Rank& rank) {
                      const Tensor x = filled(rank.device, DType::f32, {1}, rank.id == 1 ? value : 0);
                      rank.publish("x", x);
                      rank.groups.world().barrier(Site::named(site));
                    })
        .run_hash;
  };
  EXPECT_EQ(hash_of(1, "a"), hash_of(1, "a"));
  EXPECT_NE(hash_of(1, "a"), hash_of(2, "a"));
  EXPECT_NE(hash_of(1, "a"), hash_of(1, "b"));
}

TEST(Determinism, TheRunHashSeesFindings) {
  CpuDevice device;
  const auto hash_of = [&](bool waits) {
    return simulate(world_of(2), device,
                    [&](Rank& rank) {
                      Work work = rank.groups.world().start_barrier("site");
                      if (waits) work.wait();
                    })
        .run_hash;
  };
  EXPECT_NE(hash_of(true), hash_of(false));
}

TEST(Determinism, TheRunHashSeesEveryFieldOfACallAndATensor) {
  const auto ones = [](Rank& r, const Shape& shape, DType dtype = DType::f32) {
    return filled(r.device, dtype, shape, 1);
  };
  const auto in_second = [](const char* kind) {
    return [kind](Rank& r) {
      std::map<std::string, Communicator*> groups;
      for (const char* name : {"a", "b", "c"}) groups[name] = r.groups.new_group(name, {0, 1}, "site");
      groups["a"]->barrier("site");
      groups[kind]->barrier("site");
    };
  };
  const auto sum = ReduceOp::sum;
  const std::vector<RankProgram> all = {
      [](Rank&) {},
      [&](Rank& r) { r.groups.world().all_reduce(ones(r, {1}), sum, "site"); },
      [&](Rank& r) { r.groups.world().all_reduce(ones(r, {2}), sum, "site"); },
      [&](Rank& r) { r.groups.world().all_reduce(ones(r, {1}, DType::f64), sum, "site"); },
      [&](Rank& r) { r.groups.world().all_reduce(ones(r, {1}), ReduceOp::max, "site"); },
      [&](Rank& r) { r.groups.world().broadcast(ones(r, {1}), 0, "site"); },
      [&](Rank& r) { r.groups.world().broadcast(ones(r, {1}), 1, "site"); },
      [&](Rank& r) { r.groups.get("dp").all_reduce(ones(r, {1}), sum, "site"); },
      in_second("b"),
      in_second("c"),
      [&](Rank& r) {
        r.publish("x", ones(r, {2, 3}));
      },
      [&](Rank& r) {
        r.publish("x", ones(r, {3, 2}));
      },
      [&](Rank& r) {
        r.publish("y", ones(r, {3, 2}));
      },
      [&](Rank& r) {
        r.publish("x", ones(r, {3, 2}, DType::i32));
      },
      [&](Rank& r) {
        if (r.id == 0) r.publish("x", ones(r, {3, 2}));
      },
      [&](Rank& r) {
        if (r.id == 1) r.publish("x", ones(r, {3, 2}));
      },
  };
  CpuDevice device;
  std::set<std::uint64_t> hashes;
  for (const RankProgram& program : all) {
    const RunReport report = simulate(world_of(2), device, program);
    EXPECT_TRUE(report.ok()) << report.failure();
    hashes.insert(report.run_hash);
  }
  EXPECT_EQ(hashes.size(), all.size());
}

}  // namespace
