// Proves the timed round on virtual ranks, with clocks that count: its table is exact, no element is
// wrong in any order of reduction, and planted defects are counted exactly.

#include <array>
#include <functional>
#include <gtest/gtest.h>
#include <map>
#include <nlohmann/json.hpp>
#include <rapidcheck/gtest.h>
#include <set>
#include <stdexcept>

#include "sim/cpu/cpu_device.h"
#include "sim/world/simulate.h"
#include "tests/support/layout_generator.h"
#include "verify/backends/bandwidth_round.h"
#include "verify/report/bandwidth_table.h"

namespace {

using sim::Call;
using sim::Operation;
using verify::BandwidthPlan;
using verify::BandwidthRow;
using verify::BandwidthRows;

/// A clock on which each reading is `step` seconds after the one before.
verify::Clock counting_clock(double step) {
  return [step, now = 0.0]() mutable { return now += step; };
}

struct Done : sim::Pending {
  void wait() override {}
};

/// What goes wrong in one operation on one kind of group, at one count of elements.
struct Fault {
  enum class Kind { none, left_out, spoilt };
  Kind kind = Kind::none;
  std::string group_kind = {};
  Operation operation = Operation::all_reduce;
  std::int64_t count = 0;
  std::set<std::int64_t> elements = {};  // elements of the result that are spoilt
  std::optional<int> rank = {};          // if absent, all ranks
};

class FaultyCommunicator : public sim::Communicator {
 public:
  FaultyCommunicator(sim::Communicator& real, sim::Device& device, const Fault& fault)
      : Communicator(real.group(), real.rank(), device,
                     std::make_shared<sim::Recorder>(1'000'000, [] { std::abort(); })),
        real_(real),
        fault_(fault) {}

 private:
  using Result = std::unique_ptr<sim::Pending>;

  Result do_call(Call&& call) override {
    switch (call.operation) {
      case Operation::all_reduce:
        return run(call, [&] { real_.all_reduce(call.output, call.reduce_op, call.site); });
      case Operation::reduce_scatter:
        return run(call, [&] { real_.reduce_scatter(call.input, call.output, call.reduce_op, call.site); });
      case Operation::all_gather:
        return run(call, [&] { real_.all_gather(call.input, call.output, call.site); });
      case Operation::broadcast:
        return run(call, [&] { real_.broadcast(tensor_of(call), call.root, call.site); });
      case Operation::reduce:
        return run(call, [&] { real_.reduce(tensor_of(call), call.reduce_op, call.root, call.site); });
      case Operation::all_to_all:
        return run(call, [&] { real_.all_to_all(call.input, call.output, call.site); });
      case Operation::barrier:
        real_.barrier(call.site);
        return std::make_unique<Done>();
      default:
        std::abort();  // bandwidth_round makes no other calls
    }
  }
  std::unique_ptr<Communicator> do_split(Call&&) override { std::abort(); }

  static sim::Tensor tensor_of(const Call& call) { return call.output->is_none() ? call.input : call.output; }

  template <typename Right>
  Result run(const Call& call, const Right& right) {
    const bool is_here = call.operation == fault_.operation && call.count == fault_.count &&
                         (!fault_.rank || *fault_.rank == global_rank());
    if (!is_here || fault_.kind != Fault::Kind::left_out) right();
    if (is_here && fault_.kind == Fault::Kind::spoilt) spoil(tensor_of(call));
    return std::make_unique<Done>();
  }

  void spoil(sim::Tensor tensor) {
    std::vector<std::byte> bytes(static_cast<std::size_t>(tensor.bytes()));
    tensor.device().to_host(tensor, bytes);
    for (const std::int64_t element : fault_.elements)
      bytes[static_cast<std::size_t>(element * sim::size_of(tensor.dtype()))] ^= std::byte{1};
    tensor.device().from_host(bytes, tensor);
  }

  sim::Communicator& real_;
  const Fault& fault_;
};

class FaultyGroups : public sim::Groups {
 public:
  FaultyGroups(sim::Rank& rank, const Fault& fault) : real_(rank.groups), kind_(fault.group_kind) {
    sim::Communicator* real = real_.find(kind_);
    if (real != nullptr) faulty_ = std::make_unique<FaultyCommunicator>(*real, rank.device, fault);
  }
  sim::Communicator& world() override { return real_.world(); }
  sim::Communicator& get(std::string_view kind) override {
    return kind == kind_ ? *faulty_ : real_.get(kind);
  }
  sim::Communicator* find(std::string_view kind) override {
    return kind == kind_ ? faulty_.get() : real_.find(kind);
  }
  sim::Communicator* new_group(std::string name, const std::vector<int>& members, sim::Site site) override {
    return real_.new_group(std::move(name), members, site);
  }

 private:
  sim::Groups& real_;
  std::string kind_;
  std::unique_ptr<sim::Communicator> faulty_;
};

struct Measured {
  std::vector<BandwidthRows> ranks;
  std::uint64_t run_hash = 0;
};

/// Runs the round on every rank of the world.
Measured measured(const sim::WorldSpec& world, const BandwidthPlan& plan, const Fault& fault = {},
                  double step = 1) {
  Measured result;
  result.ranks.resize(static_cast<std::size_t>(world.layout.grid_size));
  sim::CpuDevice device;
  const sim::RunReport report = sim::simulate(world, device, [&](sim::Rank& rank) {
    BandwidthRows& own = result.ranks[static_cast<std::size_t>(rank.id - world.layout.first_rank)];
    if (fault.kind == Fault::Kind::none) {
      own = verify::bandwidth_round(rank, plan, counting_clock(step));
      return;
    }
    FaultyGroups groups(rank, fault);
    sim::Rank other{rank.id, rank.layout, rank.device, groups, rank.random, rank.record};
    own = verify::bandwidth_round(other, plan, counting_clock(step));
  });
  if (!report.ok()) throw std::runtime_error(report.failure());
  result.run_hash = report.run_hash;
  return result;
}

/// Returns the rows of rank 0, with what the other ranks tell it added.
BandwidthRows added_up(const Measured& all) {
  BandwidthRows rows = all.ranks.front();
  for (std::size_t rank = 1; rank < all.ranks.size(); ++rank)
    EXPECT_TRUE(verify::add_wrong_elements(rows, verify::wrong_elements_text(all.ranks[rank])));
  return rows;
}

sim::WorldSpec small_world() {
  return {.layout = sim::make_layout({.world_size = 8,
                                      .tensor_model_parallel_size = 2,
                                      .pipeline_model_parallel_size = 2,
                                      .order = "tp-cp-ep-dp-pp"},
                                     sim::RuleBook::megatron)};
}

sim::WorldSpec drawn_world(int most) {
  const auto sizes = *rc::gen::suchThat(test::accepted_megatron_sizes(), [most](const auto& s) {
    return s.world_size > 1 && s.world_size <= most;
  });
  sim::WorldSpec world{.layout = sim::make_layout(sizes, sim::RuleBook::megatron)};
  world.reduction_order = {
      *rc::gen::element(sim::ReductionOrderKind::rank_order, sim::ReductionOrderKind::nccl_ring,
                        sim::ReductionOrderKind::shuffled),
      *rc::gen::arbitrary<std::uint64_t>()};
  return world;
}

BandwidthPlan drawn_plan() {
  return {.sizes = {*rc::gen::inRange(0, 40), *rc::gen::inRange(200, 2'000)},
          .dtype = *rc::gen::element(sim::DType::f32, sim::DType::i32),
          .iterations = *rc::gen::inRange(1, 4),
          .operations = verify::kBandwidthOperations};
}

TEST(Bandwidth, TableOfASmallLayout) {
  const BandwidthPlan plan{.sizes = {10'010, 1 << 16},
                           .iterations = 4,
                           .operations = {Operation::all_reduce, Operation::reduce_scatter},
                           .kinds = {"tp", "tp-dp", "dp"}};
  const sim::Layout layout =
      sim::make_layout({.world_size = 4, .tensor_model_parallel_size = 2}, sim::RuleBook::megatron);
  const Fault fault{Fault::Kind::left_out, "tp", Operation::reduce_scatter, 1'251};
  // A call takes 2^-16 seconds. The faulty kind has two groups of two ranks, and every rank has 1,251
  // wrong elements.
  const BandwidthRows rows = added_up(measured({.layout = layout}, plan, fault, 1.0 / (1 << 14)));
  EXPECT_EQ("\n" + verify::bandwidth_text(rows, "  "), R"(
  kind   ranks  operation        size       count  type  redop  root   time   algbw   busbw  #wrong
                                  (B)  (elements)                      (us)  (GB/s)  (GB/s)
  dp         2  all_reduce      10008        2502  f32   sum      -1  15.26    0.66    0.66       0
  dp         2  all_reduce      65536       16384  f32   sum      -1  15.26    4.29    4.29       0
  dp         2  reduce_scatter  10008        1251  f32   sum      -1  15.26    0.66    0.33       0
  dp         2  reduce_scatter  65536        8192  f32   sum      -1  15.26    4.29    2.15       0
  tp         2  all_reduce      10008        2502  f32   sum      -1  15.26    0.66    0.66       0
  tp         2  all_reduce      65536       16384  f32   sum      -1  15.26    4.29    4.29       0
  tp         2  reduce_scatter  10008        1251  f32   sum      -1  15.26    0.66    0.33    5004
  tp         2  reduce_scatter  65536        8192  f32   sum      -1  15.26    4.29    2.15       0
  tp-dp      4  all_reduce      10008        2502  f32   sum      -1  15.26    0.66    0.98       0
  tp-dp      4  all_reduce      65536       16384  f32   sum      -1  15.26    4.29    6.44       0
  tp-dp      4  reduce_scatter  10000         625  f32   sum      -1  15.26    0.66    0.49       0
  tp-dp      4  reduce_scatter  65536        4096  f32   sum      -1  15.26    4.29    3.22       0
  wrong elements    : 5004
  avg bus bandwidth : 2.17 GB/s
)");
}

TEST(Bandwidth, TableOfARankThatIsNotInAllKinds) {
  const BandwidthPlan plan{
      .sizes = {1 << 16}, .iterations = 1, .operations = {Operation::broadcast}, .kinds = {"mp", "embd"}};
  const sim::Layout layout =
      sim::make_layout({.world_size = 4, .pipeline_model_parallel_size = 4}, sim::RuleBook::megatron);
  const Measured all = measured({.layout = layout}, plan, {}, 1.0 / (1 << 16));
  EXPECT_EQ("\n" + verify::bandwidth_text(all.ranks[1]), R"(
kind  ranks  operation   size       count  type  redop  root   time   algbw   busbw  #wrong
                          (B)  (elements)                      (us)  (GB/s)  (GB/s)
mp        4  broadcast  65536       16384  f32   none      3  15.26    4.29    4.29       0
embd      2  broadcast  65536       16384  f32   none      1      -       -       -       0
wrong elements    : 0
avg bus bandwidth : 4.29 GB/s
)");
}

TEST(Bandwidth, JsonHasTheSameFields) {
  const BandwidthPlan plan{.sizes = {100},
                           .dtype = sim::DType::i32,
                           .iterations = 4,
                           .operations = {Operation::reduce},
                           .kinds = {"dp-cp", "mp"}};
  BandwidthRows rows = added_up(measured(small_world(), plan, {}, 1.0 / (1 << 14)));
  ASSERT_EQ(rows.size(), 2U);
  rows.back().group = std::nullopt;
  rows.back().seconds = std::nullopt;
  rows.back().wrong = 3;
  const auto number = [](double value) { return nlohmann::ordered_json(value).dump(); };
  const std::string busbw = number(100 / (1.0 / (1 << 16)) / 1'000'000'000);
  EXPECT_EQ(verify::bandwidth_json(rows).dump(),
            R"({"results":[{"kind":"dp-cp","group":0,"ranks":2,"operation":"reduce","size":100,"count":25,)"
            R"("type":"i32","redop":"sum","root":0,"time":15.2587890625,"algbw":)" +
                busbw + R"(,"busbw":)" + busbw +
                R"(,"wrong":0},{"kind":"mp","group":null,"ranks":4,"operation":"reduce","size":100,)"
                R"("count":25,"type":"i32","redop":"sum","root":0,"time":null,"algbw":null,"busbw":null,)"
                R"("wrong":3}],"wrong":3,"average_bus_bandwidth":)" +
                busbw + "}");
}

TEST(Bandwidth, FactorsAreThoseOfNcclTests) {
  const std::map<Operation, std::vector<double>> expected = {// of 2, 4 and 8 ranks
                                                             {Operation::all_reduce, {1, 1.5, 1.75}},
                                                             {Operation::all_gather, {0.5, 0.75, 0.875}},
                                                             {Operation::reduce_scatter, {0.5, 0.75, 0.875}},
                                                             {Operation::all_to_all, {0.5, 0.75, 0.875}},
                                                             {Operation::broadcast, {1, 1, 1}},
                                                             {Operation::reduce, {1, 1, 1}}};
  for (const Operation operation : verify::kBandwidthOperations) {
    EXPECT_EQ(verify::bus_factor(operation, 2), expected.at(operation)[0]);
    EXPECT_EQ(verify::bus_factor(operation, 4), expected.at(operation)[1]);
    EXPECT_EQ(verify::bus_factor(operation, 8), expected.at(operation)[2]);
  }
}

TEST(Bandwidth, WorkedOutByHand) {
  // This is 3 GB in 2 seconds.
  BandwidthRow row{"tp", 4, Operation::all_reduce, sim::DType::f32, 750'000'000, 3'000'000'000, -1, 0, 2.0};
  EXPECT_EQ(verify::algorithm_bandwidth(row), 1.5);
  EXPECT_EQ(verify::bus_bandwidth(row), 2.25);
  BandwidthRow other = row;
  other.operation = Operation::all_gather;
  EXPECT_EQ(verify::bus_bandwidth(other), 1.125);
  BandwidthRow none = row;
  none.seconds = std::nullopt;
  BandwidthRow still = row;
  still.seconds = 0;
  EXPECT_EQ(verify::bus_bandwidth(none), std::nullopt);
  EXPECT_EQ(verify::algorithm_bandwidth(still), std::nullopt);
  EXPECT_EQ(verify::average_bus_bandwidth({row, none, other, still}), 1.6875);
  EXPECT_EQ(verify::average_bus_bandwidth({none, still}), std::nullopt);
}

TEST(Bandwidth, SizesAreCutToWholeBlocks) {
  const BandwidthPlan plan{
      .sizes = {0, 3, 47, 4'096}, .operations = verify::kBandwidthOperations, .kinds = {"dp"}};
  const sim::Layout layout = sim::make_layout({.world_size = 3}, sim::RuleBook::megatron);
  std::map<Operation, std::vector<std::pair<std::int64_t, std::int64_t>>> found;  // count and bytes
  for (const BandwidthRow& row : verify::bandwidth_rows(layout, plan)) {
    EXPECT_EQ(row.ranks, 3);
    found[row.operation].emplace_back(row.count, row.bytes);
  }
  const decltype(found)::mapped_type whole = {{1, 4}, {1, 4}, {11, 44}, {1'024, 4'096}};
  const decltype(found)::mapped_type blocks = {{1, 12}, {1, 12}, {3, 36}, {341, 4'092}};
  EXPECT_EQ(found[Operation::all_reduce], whole);
  EXPECT_EQ(found[Operation::broadcast], whole);
  EXPECT_EQ(found[Operation::reduce], whole);
  EXPECT_EQ(found[Operation::all_gather], blocks);
  EXPECT_EQ(found[Operation::reduce_scatter], blocks);
  EXPECT_EQ(found[Operation::all_to_all], blocks);
}

TEST(Bandwidth, PlansThatAreNotRightStopHere) {
  const sim::Layout layout = sim::world_of(2).layout;
  EXPECT_DEATH(verify::bandwidth_rows(layout, {.sizes = {8}, .dtype = sim::DType::bf16}), "");
  EXPECT_DEATH(verify::bandwidth_rows(layout, {.sizes = {8}, .iterations = 0}), "");
  EXPECT_DEATH(verify::bandwidth_rows(layout, {.sizes = {8}, .operations = {Operation::send}}), "");
}

RC_GTEST_PROP(Bandwidth, NoElementIsWrongInAnyOrderOfReduction, ()) {
  const sim::WorldSpec world = drawn_world(16);
  const BandwidthPlan plan = drawn_plan();
  const Measured all = measured(world, plan);
  const BandwidthRows before = verify::bandwidth_rows(world.layout, plan);
  for (std::size_t rank = 0; rank < all.ranks.size(); ++rank) {
    const BandwidthRows& rows = all.ranks[rank];
    RC_ASSERT(rows.size() == before.size());
    RC_ASSERT(verify::wrong_elements_text(rows) == "[]");
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const int id = world.layout.first_rank + static_cast<int>(rank);
      const auto place = world.layout.find(rows[i].kind)->place_of(id);
      BandwidthRow expected = before[i];
      if (place) expected.group = place->group;
      if (place) expected.seconds = 1.0 / plan.iterations;
      RC_ASSERT(rows[i] == expected);
    }
  }
}

RC_GTEST_PROP(Bandwidth, BetweenTwoReadingsOfTheClockAreTheTimedCallsAlone, ()) {
  const sim::WorldSpec world = drawn_world(8);
  const BandwidthPlan plan = drawn_plan();
  const auto rows_count = verify::bandwidth_rows(world.layout, plan).size();
  sim::CpuDevice device;
  std::vector<BandwidthRows> found(static_cast<std::size_t>(world.layout.grid_size));
  const sim::RunReport report = sim::simulate(world, device, [&](sim::Rank& rank) {
    // On this clock, a call takes a second.
    found[static_cast<std::size_t>(rank.id - world.layout.first_rank)] = verify::bandwidth_round(
        rank, plan, [&rank] { return static_cast<double>(rank.record.calls().size()); });
  });
  RC_ASSERT(report.ok());
  for (std::size_t rank = 0; rank < found.size(); ++rank) {
    RC_ASSERT(found[rank].size() == rows_count);
    std::vector<std::pair<std::string, Operation>> expected;
    for (const BandwidthRow& row : found[rank]) {
      if (!row.group) continue;
      RC_ASSERT(row.seconds == 1.0);
      const std::pair call(row.kind, row.operation);
      expected.insert(expected.end(), {call, {row.kind, Operation::barrier}});
      expected.insert(expected.end(), static_cast<std::size_t>(plan.iterations) + 1, call);
    }
    std::vector<std::pair<std::string, Operation>> calls;
    for (const sim::CallRecord& call : report.ranks[rank].calls)
      calls.emplace_back(call.group->kind, call.operation);
    RC_ASSERT(calls == expected);
  }
}

/// A device that reports the ranks whose values are read.
class ReadDevice : public sim::CpuDevice {
 public:
  explicit ReadDevice(std::function<void(int)> on_read) : on_read_(std::move(on_read)) {}
  ReadDevice(const ReadDevice& whole, int rank)
      : CpuDevice(whole, rank), on_read_(whole.on_read_), rank_(rank) {}
  std::shared_ptr<sim::Device> for_rank(int rank) override {
    return std::make_shared<ReadDevice>(*this, rank);
  }
  void to_host(const sim::Tensor& from, std::span<std::byte> values) override {
    on_read_(rank_);
    CpuDevice::to_host(from, values);
  }

 private:
  std::function<void(int)> on_read_;
  int rank_ = 0;
};

TEST(Bandwidth, ADeviceIsWaitedForBeforeTheClockIsRead) {
  using Log = std::vector<std::pair<std::string, std::size_t>>;  // what a rank did, and after how many calls
  std::array<Log, 2> logs;
  std::array<const sim::Recorder*, 2> records = {};
  const auto note = [&](int rank, const char* what) {
    const auto at = static_cast<std::size_t>(rank);
    logs[at].emplace_back(what, records[at]->calls().size());
  };
  ReadDevice device([&](int rank) { note(rank, "read"); });
  const BandwidthPlan plan{
      .sizes = {8}, .iterations = 3, .operations = {Operation::all_gather}, .kinds = {"dp"}};
  const sim::RunReport report = sim::simulate(sim::world_of(2), device, [&](sim::Rank& rank) {
    records[static_cast<std::size_t>(rank.id)] = &rank.record;
    verify::bandwidth_round(rank, plan, [&] {
      note(rank.id, "clock");
      return 0.0;
    });
  });
  EXPECT_TRUE(report.ok()) << report.failure();
  const Log expected = {{"read", 2}, {"clock", 2}, {"read", 5}, {"clock", 5}, {"read", 6}};
  EXPECT_EQ(logs[0], expected);
  EXPECT_EQ(logs[1], expected);
}

RC_GTEST_PROP(Bandwidth, TheClockReachesSecondsAlone, ()) {
  const sim::WorldSpec world = drawn_world(8);
  const BandwidthPlan plan = drawn_plan();
  RC_ASSERT(measured(world, plan, {}, 1).run_hash == measured(world, plan, {}, 17).run_hash);
}

RC_GTEST_PROP(Bandwidth, EachKindWithMoreThanOneMemberInTheLayoutsOrder, ()) {
  const sim::Layout layout = drawn_world(64).layout;
  BandwidthPlan plan{.sizes = {8}, .operations = {Operation::reduce}};
  std::vector<std::string> expected;
  for (const sim::GroupKind& kind : layout.kinds) {
    const bool is_drawn = *rc::gen::arbitrary<bool>();
    if (is_drawn) plan.kinds.insert(plan.kinds.begin(), kind.name());
    if (is_drawn && kind.members(0).size() > 1) expected.push_back(kind.name());
  }
  RC_PRE(!plan.kinds.empty());
  std::vector<std::string> found;
  for (const BandwidthRow& row : verify::bandwidth_rows(layout, plan)) found.push_back(row.kind);
  RC_ASSERT(found == expected);
  plan.kinds.clear();
  std::size_t all = 0;
  for (const sim::GroupKind& kind : layout.kinds) all += kind.members(0).size() > 1 ? 1U : 0U;
  RC_ASSERT(verify::bandwidth_rows(layout, plan).size() == all);
}

/// Draws a row of the world whose operation and count no other row of its kind has.
std::optional<std::size_t> drawn_row(const BandwidthRows& rows) {
  if (rows.empty()) return std::nullopt;
  const auto drawn = *rc::gen::inRange<std::size_t>(0, rows.size());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (i != drawn && rows[i].kind == rows[drawn].kind && rows[i].operation == rows[drawn].operation &&
        rows[i].count == rows[drawn].count)
      return std::nullopt;
  }
  return drawn;
}

bool gets_blocks(Operation operation) {
  return operation == Operation::all_gather || operation == Operation::all_to_all;
}

RC_GTEST_PROP(Bandwidth, AsManyWrongElementsAsOneRankGets, ()) {
  const sim::WorldSpec world = drawn_world(8);
  const BandwidthPlan plan = drawn_plan();
  const BandwidthRows rows = verify::bandwidth_rows(world.layout, plan);
  const std::optional<std::size_t> drawn = drawn_row(rows);
  RC_PRE(drawn.has_value());
  const BandwidthRow& row = rows[*drawn];
  const sim::GroupKind& kind = *world.layout.find(row.kind);
  const int group = *rc::gen::inRange(0, kind.count());
  const int place = row.operation == Operation::reduce ? 0 : *rc::gen::inRange(0, kind.size());
  const std::int64_t result = row.count * (gets_blocks(row.operation) ? kind.size() : 1);
  Fault fault{Fault::Kind::spoilt, row.kind, row.operation, row.count, {}, kind.member(group, place)};
  fault.elements = *rc::gen::nonEmpty<std::set<std::int64_t>>(
      rc::gen::container<std::set<std::int64_t>>(rc::gen::inRange<std::int64_t>(0, result)));
  const Measured all = measured(world, plan, fault);
  for (std::size_t rank = 0; rank < all.ranks.size(); ++rank) {
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const bool is_here = i == *drawn && world.layout.first_rank + static_cast<int>(rank) == *fault.rank;
      RC_ASSERT(all.ranks[rank][i].wrong == (is_here ? std::ssize(fault.elements) : 0));
    }
  }
  RC_ASSERT(verify::wrong_elements(added_up(all)) == std::ssize(fault.elements));
}

RC_GTEST_PROP(Bandwidth, AllThatShouldHaveComeIsWrongWhereACollectiveDoesNothing, ()) {
  const sim::WorldSpec world = drawn_world(8);
  const BandwidthPlan plan = drawn_plan();
  const BandwidthRows rows = verify::bandwidth_rows(world.layout, plan);
  const std::optional<std::size_t> drawn = drawn_row(rows);
  RC_PRE(drawn.has_value());
  const BandwidthRow& row = rows[*drawn];
  const sim::GroupKind& kind = *world.layout.find(row.kind);
  const Measured all = measured(world, plan, {Fault::Kind::left_out, row.kind, row.operation, row.count});
  const int n = kind.size();
  const std::map<Operation, std::int64_t> per_group = {
      {Operation::all_reduce, n * row.count},
      {Operation::all_gather, n * n * row.count},
      {Operation::reduce_scatter, n * row.count},
      {Operation::all_to_all, n * n * row.count},
      {Operation::broadcast, (n - 1) * row.count},  // the root already has it
      {Operation::reduce, row.count}};              // only the root gets it
  BandwidthRows sum = added_up(all);
  for (std::size_t i = 0; i < rows.size(); ++i)
    RC_ASSERT(sum[i].wrong == (i == *drawn ? kind.count() * per_group.at(row.operation) : 0));
}

}  // namespace
