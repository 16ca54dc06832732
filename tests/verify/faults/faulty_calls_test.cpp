// What each fault does to a call, on three ranks: rank r gives the elements 10 r + 1, 10 r + 2, 10 r + 3.

#include "verify/faults/faulty_calls.h"

#include <cmath>
#include <cstring>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <optional>
#include <rapidcheck/gtest.h>
#include <string>

#include "sim/comm/work_parts.h"
#include "sim/cpu/cpu_device.h"
#include "sim/world/simulate.h"
#include "verify/faults/faulty_device.h"

namespace {

using sim::Communicator;
using sim::Rank;
using sim::Tensor;

using Values = std::vector<float>;

constexpr int kRanks = 3;

Tensor given(Rank& rank, int times = 1) {
  Values values;
  for (int i = 1; i <= kRanks; ++i) values.push_back(static_cast<float>(times * (10 * rank.id + i)));
  Tensor x = rank.device.empty(sim::DType::f32, {kRanks});
  rank.device.from_host(std::as_bytes(std::span(values)), x);
  return x;
}

Tensor zeros(Rank& rank, std::int64_t count) { return sim::filled(rank.device, sim::DType::f32, {count}, 0); }

void sum(Rank& rank) {
  const Tensor x = given(rank);
  rank.groups.world().all_reduce(x, sim::ReduceOp::sum, "test.call");
  rank.publish("x", x);
}
/// The second of two sums, and what the first one left when the second had begun.
void two_sums(Rank& rank) {
  const Tensor first = given(rank), second = given(rank, 2);
  rank.groups.world().all_reduce(first, sim::ReduceOp::sum, "test.call");
  rank.groups.world().all_reduce(second, sim::ReduceOp::sum, "test.call");
  rank.publish("x", second);
}
/// What a sum left at the moment at which its result is used.
void sum_that_is_used(Rank& rank) {
  const Tensor x = given(rank);
  rank.groups.world().all_reduce(x, sim::ReduceOp::sum, "test.call");
  rank.publish("x", x);
  rank.groups.world().barrier("test.next");
}
void gather(Rank& rank) {
  const Tensor all = zeros(rank, kRanks);
  rank.groups.world().all_gather(given(rank).rows(0, 1), all, "test.call");
  rank.publish("x", all);
}
void reduce_scatter(Rank& rank) {
  const Tensor own = zeros(rank, 1);
  rank.groups.world().reduce_scatter(given(rank), own, sim::ReduceOp::sum, "test.call");
  rank.publish("x", own);
}
/// Rank 0 sends itself two elements and rank 2 none; each other rank sends one to each.
void exchange(Rank& rank) {
  const std::vector<std::int64_t> of_first = {2, 1, 0}, of_others = {1, 1, 1};
  std::vector<std::int64_t> received(kRanks, 1);
  received.front() = of_first[static_cast<std::size_t>(rank.id)];
  const Tensor got = zeros(rank, received.front() + 2);
  rank.groups.world().all_to_all_uneven(given(rank), rank.id == 0 ? of_first : of_others, got, received,
                                        "test.call");
  rank.publish("x", got);
}
void broadcast(Rank& rank) {
  const Tensor x = given(rank);
  rank.groups.world().broadcast(x, 0, "test.call");
  rank.publish("x", x);
}
/// Each rank sends to the next one, and receives from the one before it.
void ring(Rank& rank) {
  const Tensor sent = given(rank), got = zeros(rank, kRanks);
  const int next = (rank.id + 1) % kRanks, before = (rank.id + 2) % kRanks;
  const sim::PointToPoint calls[] = {{sim::Operation::send, sent, next}, {sim::Operation::recv, got, before}};
  rank.groups.world().batch(calls, "test.call");
  rank.publish("x", got);
}
void add_products(Rank& rank) {
  Tensor x = given(rank).reshaped({1, kRanks});
  Tensor out = sim::filled(rank.device, sim::DType::f32, {1, kRanks}, 100);
  Tensor one = sim::filled(rank.device, sim::DType::f32, {1, 1}, 1);
  rank.device.matmul(one, false, x, false, out, true);
  rank.publish("x", out);
}

sim::RunReport run(const std::vector<std::string>& plants, const sim::RankProgram& program) {
  std::vector<verify::Fault> faults = verify::parsed_faults(plants);
  verify::FaultyDevice device(faults);
  const sim::WorldSpec spec = sim::world_of(kRanks);
  faults = verify::with_calls_before(std::move(faults), spec, device, program);
  return sim::simulate(spec, device, verify::with_faults(program, faults));
}

Values published(const sim::RunReport& report, int rank) {
  const sim::Published* x = report.find(rank, "x");
  if (x == nullptr) return {};
  Values values(x->values.size() / sizeof(float));
  std::memcpy(values.data(), x->values.data(), x->values.size());
  return values;
}

struct Planted {
  const char* plant;
  void (*program)(Rank& rank);
  Values on_rank_0, on_rank_1;
  std::size_t calls = 1;  // that rank 1 makes
};

TEST(FaultyCalls, EachFaultChangesTheCallAsItsRowSays) {
  const std::vector<Planted> all = {
      {"other.call:skip", sum, {33, 36, 39}, {33, 36, 39}},
      {"test.*:skip", sum, {1, 2, 3}, {11, 12, 13}, 0},
      {"test.call:skip", gather, {1, 1, 1}, {11, 11, 11}, 0},
      {"test.call:skip", reduce_scatter, {1}, {12}, 0},
      {"test.call:twice", sum, {99, 108, 117}, {99, 108, 117}, 2},
      {"test.call:late", sum_that_is_used, {1, 2, 3}, {11, 12, 13}, 2},
      {"test.next:early", sum_that_is_used, {1, 2, 3}, {11, 12, 13}, 2},
      {"test.call:early", sum_that_is_used, {33, 36, 39}, {33, 36, 39}, 2},  // there is no call before it
      {"test.call:no-wait", sum_that_is_used, {1, 2, 3}, {11, 12, 13}, 2},
      {"test.call:wrong-group=tp", sum, {1, 2, 3}, {11, 12, 13}},
      {"test.call:op=max", sum, {21, 22, 23}, {21, 22, 23}},
      {"test.call:op=average", sum, {11, 12, 13}, {11, 12, 13}},
      {"test.call:scale=2", sum, {66, 72, 78}, {66, 72, 78}},
      {"test.call:scale=1/dp", sum, {11, 12, 13}, {11, 12, 13}},
      {"test.call:scale=-1@rank=1", sum, {33, 36, 39}, {-33, -36, -39}},
      {"test.call:scale=2@place=0", sum, {66, 72, 78}, {33, 36, 39}},
      {"test.call:scale=2@call=1", two_sums, {132, 144, 156}, {132, 144, 156}, 2},
      {"test.call:scale=2@call=0", two_sums, {66, 72, 78}, {66, 72, 78}, 2},
      {"test.call:scale=2@group=tp", sum, {33, 36, 39}, {33, 36, 39}},
      {"test.call:root=next", broadcast, {11, 12, 13}, {11, 12, 13}},
      {"test.call:peer=next", ring, {11, 12, 13}, {21, 22, 23}, 2},
      {"test.call:swap-blocks", gather, {11, 1, 21}, {11, 1, 21}},
      {"test.call:next-block", gather, {11, 21, 1}, {11, 21, 1}},
      {"test.call:swap-blocks", reduce_scatter, {36}, {33}},
      {"test.call:next-block", reduce_scatter, {36}, {39}},
      {"test.call:swap-blocks", exchange, {11, 1, 2, 21}, {12, 3, 22}},
      {"test.call:next-block", exchange, {11, 21, 1, 2}, {12, 22, 3}},
      {"test.call:own-term", sum, {1, 2, 3}, {11, 12, 13}},
      {"test.call:own-term", gather, {1, 1, 1}, {11, 11, 11}},
      {"test.call:stale", two_sums, {33, 36, 39}, {33, 36, 39}, 2},
      {"test.call:dtype=bf16", sum, {33, 36, 39}, {33, 36, 39}},
      {"test.call:truncate=2", sum, {33, 2, 3}, {33, 12, 13}},
      {"device.matmul:zero", add_products, {0, 0, 0}, {0, 0, 0}, 0},
      {"device.*:offset=1@rank=1", add_products, {101, 102, 103}, {112, 113, 111}, 0},
      {"device.matmul:scale=1/2", add_products, {50.5, 51, 51.5}, {55.5, 56, 56.5}, 0},
      {"device.matmul:drop-accumulate", add_products, {1, 2, 3}, {11, 12, 13}, 0},
  };
  for (const Planted& one : all) {
    const sim::RunReport report = run({one.plant}, one.program);
    EXPECT_TRUE(report.ok()) << one.plant << ": " << report.failure();
    EXPECT_EQ(published(report, 0), one.on_rank_0) << one.plant;
    EXPECT_EQ(published(report, 1), one.on_rank_1) << one.plant;
    EXPECT_EQ(report.ranks[1].calls.size(), one.calls) << one.plant;
  }
}

TEST(FaultyCalls, PoisonOneElement) {
  const Values x = published(run({"test.call:nan@rank=1"}, sum), 1);
  EXPECT_TRUE(std::isnan(x[0]));
  EXPECT_EQ(x[1], 36);
}

TEST(FaultyTensors, AreChangedInTheReportOfARun) {
  const auto with = [](const std::vector<std::string>& plants) {
    sim::RunReport report = run({}, sum);
    sim::CpuDevice device;
    const std::vector<verify::Fault> faults = verify::parsed_faults(plants);
    plant_in_tensors(report, faults, device);
    return report;
  };
  const sim::RunReport doubled = with({"tensor.x:scale=2@rank=1", "tensor.y:zero"});
  EXPECT_EQ(published(doubled, 0), (Values{33, 36, 39}));
  EXPECT_EQ(published(doubled, 1), (Values{66, 72, 78}));
  EXPECT_EQ(published(with({"tensor.*:offset=1"}), 0), (Values{36, 39, 33}));
  EXPECT_EQ(published(with({"tensor.x:zero"}), 2), (Values{0, 0, 0}));
  EXPECT_TRUE(std::isnan(published(with({"tensor.x:nan"}), 2)[0]));
}

// ---- parts of a training
// ------------------------------------------------------------------------------------

constexpr std::int64_t kEach = 2;  // steps, microbatches and layers
const char* const kPasses[] = {"forward", "backward"};

/// Calls `visit` for each call of a training: with its pass, "" for the update, its microbatch, layer and step.
template <typename Visit>
void visit_calls(const Visit& visit) {
  for (int step = 0; step < kEach; ++step) {
    for (const char* pass : kPasses) {
      for (int microbatch = 0; microbatch < kEach; ++microbatch) {
        for (int layer = 0; layer < kEach; ++layer) visit(sim::WorkPart{pass, microbatch, 0, layer, step});
      }
    }
    visit(sim::WorkPart{.step = step});
  }
}

std::int64_t number_of_calls() {
  std::int64_t calls = 0;
  visit_calls([&](const sim::WorkPart&) { ++calls; });
  return calls;
}

/// Call i of the training sums element i of a tensor of ones.
void training(Rank& rank) {
  const Tensor x = sim::filled(rank.device, sim::DType::f32, {number_of_calls()}, 1);
  std::int64_t call = 0;
  visit_calls([&](const sim::WorkPart& part) {
    begin_step(rank, part.step);
    if (part.microbatch != sim::WorkPart::kNone) {
      begin_pass(rank, part.pass, part.microbatch, part.chunk);
      begin_layer(rank, part.layer);
    } else {
      end_pass(rank);
    }
    rank.groups.world().all_reduce(x.rows(call, call + 1), sim::ReduceOp::sum, "test.call");
    ++call;
  });
  rank.publish("x", x);
}

std::optional<int> drawn_number() {
  const int number = *rc::gen::inRange(-1, static_cast<int>(kEach) + 1);
  return number < 0 ? std::nullopt : std::optional(number);
}

RC_GTEST_PROP(FaultyCalls, AreInTheirPartOfATraining, ()) {
  const std::string pass = *rc::gen::element<std::string>("", kPasses[0], kPasses[1]);
  const std::optional<int> microbatch = drawn_number(), layer = drawn_number(), step = drawn_number(),
                           nth = drawn_number();
  std::string where;
  const auto add = [&](const std::string& name, const std::string& value) {
    where += (where.empty() ? "@" : ",") + name + "=" + value;
  };
  if (!pass.empty()) add("pass", pass);
  if (microbatch) add("microbatch", std::to_string(*microbatch));
  if (layer) add("layer", std::to_string(*layer));
  if (step) add("step", std::to_string(*step));
  if (nth) add("call", std::to_string(*nth));
  Values expected;
  int met = 0;
  visit_calls([&](const sim::WorkPart& part) {
    const bool is_there = (pass.empty() || pass == part.pass) &&
                          (!microbatch || *microbatch == part.microbatch) &&
                          (!layer || *layer == part.layer) && (!step || *step == part.step);
    const bool has_fault = is_there && (!nth || met == *nth);
    if (is_there) ++met;
    expected.push_back(static_cast<float>(has_fault ? 2 * kRanks : kRanks));
  });
  RC_ASSERT(published(run({"test.call:scale=2" + where}, training), 1) == expected);
}

/// Sums and gathers in a drawn order, each at a site of its own: "test.0", "test.1" and so on.
sim::RankProgram drawn_calls(const std::vector<bool>& sums) {
  return [sums](Rank& rank) {
    static constexpr sim::Site kSites[] = {"test.0", "test.1", "test.2", "test.3", "test.4"};
    const Tensor x = given(rank), all = zeros(rank, kRanks);
    for (std::size_t i = 0; i < sums.size(); ++i) {
      if (sums[i]) {
        rank.groups.world().all_reduce(x, sim::ReduceOp::sum, kSites[i]);
      } else {
        rank.groups.world().all_gather(x.rows(0, 1), all, kSites[i]);
      }
    }
    rank.publish("x", x);
  };
}

RC_GTEST_PROP(FaultyCalls, AreEarlyWhereTheCallBeforeIsLate, ()) {
  const auto sums = *rc::gen::container<std::vector<bool>>(5, rc::gen::arbitrary<bool>());
  const int call = *rc::gen::inRange(1, 5);
  const sim::RankProgram program = drawn_calls(sums);
  const sim::RunReport early = run({fmt::format("test.{}:early", call)}, program),
                       late = run({fmt::format("test.{}:late", call - 1)}, program), clean = run({}, program);
  RC_ASSERT(early.failure() == late.failure());  // the late call may meet a buffer that is in flight
  RC_ASSERT(early.run_hash == late.run_hash);
  RC_ASSERT(early.run_hash != clean.run_hash);
}

TEST(FaultyCalls, AreComposedInTheirOrder) {
  // The second fault is planted in what the first one makes of the call: max, and then half of it.
  EXPECT_EQ(published(run({"test.call:scale=1/2", "test.call:op=max"}, sum), 0), (Values{10.5, 11, 11.5}));
}

TEST(FaultyCalls, OfOneRankAreFoundByTheWorld) {
  const auto code = [](const char* plant, const sim::RankProgram& program) {
    const sim::RunReport report = run({plant}, program);
    return report.ok() ? std::string("none") : report.findings.front().code;
  };
  EXPECT_EQ(code("test.call:skip@rank=1", sum), "missing_ranks");
  EXPECT_EQ(code("test.call:twice@rank=1", sum), "left_early");
  EXPECT_EQ(code("test.call:op=max@rank=1", sum), "reduction_mismatch");
  EXPECT_EQ(code("test.call:root=next@rank=1", broadcast), "root_mismatch");
  EXPECT_EQ(code("test.call:skip@rank=1", ring), "unmatched_send");
  EXPECT_EQ(code("test.call:late@rank=1", sum_that_is_used), "collective_type_mismatch");
  EXPECT_EQ(code("test.next:early@rank=1", sum_that_is_used), "collective_type_mismatch");
}

/// What is said of faults that nothing had in a run.
std::string unmet(const char* plant, const sim::RankProgram& program) {
  const std::vector<verify::Fault> faults = verify::parsed_faults({plant});
  verify::FaultyDevice device(faults);
  const sim::WorldSpec spec = sim::world_of(kRanks);
  sim::simulate(spec, device, with_faults(program, with_calls_before(faults, spec, device, program)));
  const std::string said = text_of_unmet(faults), begins = fmt::format("nothing that ran has '{}': ", plant);
  return said.starts_with(begins) ? said.substr(begins.size()) : said;
}

TEST(FaultyCalls, OfWhichThereAreNoneSayWhatNoCallHad) {
  EXPECT_EQ(unmet("test.call:scale=2@rank=1", training), "");
  EXPECT_EQ(unmet("test.call:scale=2@rank=7,rank=8", sum), "no call there has rank=7 or rank=8");
  EXPECT_EQ(unmet("test.call:scale=2@layer=0", sum), "no call there is of a layer");
  EXPECT_EQ(unmet("test.call:scale=2@layer=2", training), "no call there has layer=2");
  EXPECT_EQ(unmet("test.call:scale=2@group=tp,step=0", sum),
            "no call there has group=tp, and no call there is of a step");
  EXPECT_EQ(unmet("test.call:next-block@rank=0", sum),
            "the calls there are all_reduce, to which it does not apply");
  EXPECT_EQ(unmet("test.call:scale=2@rank=0,place=1", sum), "no call there has rank=0 and place=1");
  EXPECT_EQ(unmet("test.call:scale=2@call=2", two_sums),
            "no rank makes a call there that is number 2, from 0");
  EXPECT_EQ(unmet("test.call:early", sum), "the call there is the first of its rank");
  EXPECT_EQ(unmet("test.cal:scale=2", sum), "there was no call of this name");
  EXPECT_EQ(unmet("device.matmul:zero@rank=3", add_products), "no call of a kernel there has rank=3");
}

TEST(FaultyCalls, AreCounted) {
  const std::vector<verify::Fault> faults = verify::parsed_faults({"test.call:scale=2@rank=1"});
  sim::CpuDevice device;
  sim::simulate(sim::world_of(kRanks), device, verify::with_faults(two_sums, faults));
  EXPECT_EQ(*faults.front().met, 2);
}

}  // namespace
