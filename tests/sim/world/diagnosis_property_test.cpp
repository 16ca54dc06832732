// Proves with random programs whose ranks disagree, throw, end early or wait in vain that the report is the
// same, word for word, for every schedule, number of threads and kind of context.

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "sim/cpu/cpu_device.h"
#include "sim/world/simulate.h"

namespace {

using namespace sim;

/// One call of one rank. Each field that does not concern the operation is ignored.
struct DrawnCall {
  std::size_t group;  // of kGroups
  Operation operation;
  std::int64_t count;
  DType dtype;
  ReduceOp reduce_op;
  int root_or_peer;  // place in the group, modulo its size
  bool is_waited;    // false: the call is started, and its Work is dropped
  bool throws;       // the program throws in place of the call
};

constexpr const char* kGroups[] = {"world", "tp", "dp"};
constexpr Operation kOperations[] = {
    Operation::all_reduce, Operation::broadcast, Operation::all_gather, Operation::barrier,
    Operation::send,       Operation::recv,      Operation::split,      Operation::all_to_all_uneven};

DrawnCall drawn_call() {
  const auto one_of = [](auto... values) { return *rc::gen::element(values...); };
  return {.group = *rc::gen::inRange<std::size_t>(0, std::size(kGroups)),
          .operation = kOperations[*rc::gen::inRange<std::size_t>(0, std::size(kOperations))],
          .count = one_of(std::int64_t{1}, std::int64_t{2}, std::int64_t{3}),
          .dtype = one_of(DType::f32, DType::f64),
          .reduce_op = one_of(ReduceOp::sum, ReduceOp::max),
          .root_or_peer = *rc::gen::inRange(0, 4),
          .is_waited = *rc::gen::inRange(0, 6) != 0,
          .throws = *rc::gen::inRange(0, 30) == 0};
}

using DrawnProgram = std::vector<std::vector<DrawnCall>>;  // the calls of each rank

/// Draws a list of calls for all ranks, and then up to four mistakes of single ranks.
DrawnProgram drawn_program(int ranks) {
  std::vector<DrawnCall> common;
  const int length = *rc::gen::inRange(1, 6);
  for (int i = 0; i < length; ++i) {
    common.push_back(drawn_call());
    common.back().throws = false;
    common.back().is_waited = true;
  }
  DrawnProgram program(static_cast<std::size_t>(ranks), common);
  const int mistakes = *rc::gen::inRange(1, 5);
  for (int i = 0; i < mistakes; ++i) {
    std::vector<DrawnCall>& calls = program[*rc::gen::inRange<std::size_t>(0, program.size())];
    const auto at = calls.begin() + *rc::gen::inRange<std::ptrdiff_t>(0, std::ssize(calls) + 1);
    switch (at == calls.end() ? 0 : *rc::gen::inRange(0, 4)) {
      case 0:
        calls.insert(at, drawn_call());
        break;
      case 1:
        calls.erase(at);
        break;
      case 2:
        *at = drawn_call();
        break;
      default:
        at->count += 1;
    }
  }
  return program;
}

void make(Rank& rank, const DrawnCall& call) {
  if (call.throws) throw std::runtime_error("planted");
  Communicator& group = rank.groups.get(kGroups[call.group]);
  const int n = group.size();
  const auto tensor = [&](std::int64_t count) { return filled(rank.device, call.dtype, {count}, rank.id); };
  const int place = call.root_or_peer % n;
  const int peer = place == group.rank() ? (place + 1) % n : place;
  Work work;
  switch (call.operation) {
    case Operation::all_reduce:
      work = group.start_all_reduce(tensor(call.count), call.reduce_op, "drawn.all_reduce");
      break;
    case Operation::broadcast:
      work = group.start_broadcast(tensor(call.count), place, "drawn.broadcast");
      break;
    case Operation::all_gather:
      work = group.start_all_gather(tensor(call.count), tensor(call.count * n), "drawn.all_gather");
      break;
    case Operation::send:
      work = group.start_send(tensor(call.count), peer, "drawn.send");
      break;
    case Operation::recv:
      work = group.start_recv(tensor(call.count), peer, "drawn.recv");
      break;
    case Operation::split:
      group.split(call.root_or_peer % 2, 0, "drawn.split");
      return;
    case Operation::all_to_all_uneven: {
      const std::vector<std::int64_t> rows(static_cast<std::size_t>(n), call.count);
      work = group.start_all_to_all_uneven(tensor(n * call.count), rows, tensor(n * call.count), rows,
                                           "drawn.all_to_all_uneven");
      break;
    }
    default:
      work = group.start_barrier("drawn.barrier");
  }
  if (call.is_waited) work.wait();
}

/// The texts of all findings, and the hash of all that the run leaves behind.
std::pair<std::string, std::uint64_t> outcome(const WorldSpec& spec, const RankProgram& program) {
  CpuDevice device;
  const RunReport report = simulate(spec, device, program);
  std::string text;
  for (const Finding& finding : report.findings) text += text_of(finding, "-");
  return {text, report.run_hash};
}

/// Other ways to run the same program. Few of them use threads, which take time to start.
std::vector<WorldSpec> other_ways(const WorldSpec& plain, std::uint64_t seed) {
  std::vector<WorldSpec> ways;
  for (std::uint64_t i = 0; i < 12; ++i) {
    WorldSpec spec = plain;
    spec.schedule = {.policy = i % 2 == 0 ? SchedulePolicy::uniform : SchedulePolicy::pct, .seed = seed + i};
    if (i % 4 == 0) spec.threads = 2;
    if (i == 5) spec.contexts = ContextKind::thread;
    ways.push_back(spec);
  }
  return ways;
}

RC_GTEST_PROP(DiagnosisProperty, TheReportDoesNotDependOnTheSchedule, ()) {
  const int ranks = *rc::gen::element(4, 6);
  const WorldSpec plain{
      .layout = make_layout({.world_size = ranks, .tensor_model_parallel_size = 2}, RuleBook::megatron)};
  const DrawnProgram drawn = drawn_program(ranks);
  const RankProgram program = [&](Rank& rank) {
    for (const DrawnCall& call : drawn[static_cast<std::size_t>(rank.id)]) make(rank, call);
  };
  const auto expected = outcome(plain, program);
  RC_TAG(expected.first.substr(0, expected.first.find(':')));
  for (const WorldSpec& spec : other_ways(plain, *rc::gen::arbitrary<std::uint64_t>())) {
    const auto got = outcome(spec, program);
    RC_ASSERT(got.first == expected.first);
    RC_ASSERT(got.second == expected.second);
  }
}

// The last rank arrives first in some schedules, and the first rank never.
TEST(DiagnosisProperty, ADisagreementIsToldInTheOrderOfTheGroup) {
  std::set<std::string> sentences;
  for (const WorldSpec& spec : other_ways(world_of(4), 0)) {
    CpuDevice device;
    const RunReport report = simulate(spec, device, [](Rank& rank) {
      Communicator& world = rank.groups.world();
      if (rank.id == 1) world.barrier("second");
      if (rank.id > 1) world.broadcast(filled(rank.device, DType::f32, {1}, 0), rank.id, "others");
    });
    ASSERT_FALSE(report.ok());
    sentences.insert(report.findings.front().sentence);
  }
  EXPECT_EQ(sentences, std::set<std::string>{
                           "members of world disagree at call 0: rank 1 has barrier, rank 2 has broadcast"});
}

}  // namespace
