#include "tests/sim/mpi/exact_reductions.h"

#include <algorithm>
#include <cstddef>
#include <fmt/format.h>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "sim/tensor/ops.h"

namespace test {

namespace {

using sim::Communicator;
using sim::DType;
using sim::Operation;
using sim::ReduceOp;
using sim::Tensor;

/// A group, by the name that all its members have for it.
struct NamedGroup {
  std::string name;
  Communicator* communicator;
};

struct Started {
  std::string name;
  Tensor output;
  sim::Work work;
};

class ExactReductions {
 public:
  ExactReductions(sim::Rank& rank, std::uint64_t seed) : rank_(rank), seed_(seed) {}

  void round(int number) {
    std::vector<NamedGroup> groups = groups_of_round(number);
    std::vector<Started> started;
    for (int turn = 0; turn < 2; ++turn) {
      order(groups, fmt::format("start {} {}", number, turn));
      for (const NamedGroup& group : groups) {
        const std::string name = fmt::format("round {} turn {} {}", number, turn, group.name);
        started.push_back(reduction(name, *group.communicator));
      }
    }
    order(started, fmt::format("wait {} of rank {}", number, rank_.id));
    for (Started& each : started) each.work.wait();
    started.push_back(over_a_barrier(number));
    for (const Started& each : started) rank_.publish(each.name, each.output);
  }

 private:
  sim::KeyedRandom random(const std::string& name) const { return sim::KeyedRandom(seed_).named(name); }

  /// Orders the items by values drawn for their names, so that ranks with different groups have the
  /// groups they share in the same order.
  template <typename Item>
  void order(std::vector<Item>& items, const std::string& name) const {
    const auto drawn = [&](const Item& item) { return random(name + item.name).bits(0); };
    std::sort(items.begin(), items.end(), [&](const Item& a, const Item& b) { return drawn(a) < drawn(b); });
  }

  std::vector<NamedGroup> groups_of_round(int number) {
    std::vector<NamedGroup> groups = {{"world", &rank_.groups.world()}};
    for (const sim::GroupKind& kind : rank_.layout.kinds) {
      Communicator* found = rank_.groups.find(kind.name());
      if (found != nullptr) groups.push_back({kind.name(), found});
    }
    Communicator& world = rank_.groups.world();
    const sim::KeyedRandom draws = random(fmt::format("groups {}", number));
    const auto place = static_cast<std::uint64_t>(world.rank());
    parts_.push_back(world.split(static_cast<int>(draws.below(place, 3)) - 1,
                                 static_cast<int>(draws.below(100 + place, 3)), "exact.split"));
    if (parts_.back() != nullptr) groups.push_back({"part", parts_.back().get()});
    std::vector<int> members;
    for (int other = 0; other < world.size(); ++other) {
      if (draws.below(200 + static_cast<std::uint64_t>(other), 4) > 0)
        members.insert(number % 2 == 0 ? members.end() : members.begin(), world.group().rank_at(other));
    }
    if (members.empty()) return groups;
    Communicator* made = rank_.groups.new_group(fmt::format("made{}", number), members, "exact.new_group");
    if (made != nullptr) groups.push_back({"made", made});
    return groups;
  }

  Tensor values(const std::string& name, DType dtype, ReduceOp op, std::int64_t count) const {
    const sim::KeyedRandom draws = random(fmt::format("{} of rank {}", name, rank_.id));
    const bool is_exact = op == ReduceOp::max || op == ReduceOp::min || dtype == DType::i32;
    if (is_exact) return sim::keyed(rank_.device, dtype, {count}, draws);
    constexpr std::int32_t kFactors[] = {-1, 1, 2};
    constexpr std::int32_t kMost = 8;
    std::vector<std::int32_t> numbers(static_cast<std::size_t>(count));
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      numbers[i] = op == ReduceOp::product ? kFactors[draws.below(i, 3)]
                                           : static_cast<std::int32_t>(draws.below(i, 2 * kMost + 1)) - kMost;
    }
    const Tensor whole = sim::from_host(rank_.device, DType::i32, {count}, std::as_bytes(std::span(numbers)));
    return sim::cast(whole, dtype);
  }

  /// Some ranks wait for the reduction before they come to a barrier, while the others wait for it after
  /// the barrier.
  Started over_a_barrier(int number) const {
    Started started = reduction(fmt::format("round {} over a barrier", number), rank_.groups.world());
    if ((rank_.id + number) % 2 == 0) started.work.wait();
    rank_.groups.world().barrier("exact.barrier");
    started.work.wait();
    return started;
  }

  Started reduction(const std::string& name, Communicator& group) const {
    const sim::KeyedRandom draws = random(name);
    const auto dtype = static_cast<DType>(draws.below(0, 5));
    const auto op = static_cast<ReduceOp>(draws.below(1, 5));
    const auto count = std::int64_t{draws.below(2, draws.below(3, 8) == 0 ? 20'000 : 20)};
    const auto root = static_cast<int>(draws.below(4, 1U << 20)) % group.size();
    const Tensor block = values(name + " block", dtype, op, count);
    switch (draws.below(5, 3)) {
      case 0:
        return {name, block, group.start_all_reduce(block, op, "exact.all_reduce")};
      case 1:
        return {name, block, group.start_reduce(block, op, root, "exact.reduce")};
      default:
        break;
    }
    const Tensor whole = values(name + " whole", dtype, op, count * group.size());
    // Sometimes the output block lies in the input.
    const std::int64_t begin = group.rank() * count;
    const Tensor output = draws.below(6, 4) == 0 ? whole.rows(begin, begin + count) : block;
    return {name, output, group.start_reduce_scatter(whole, output, op, "exact.reduce_scatter")};
  }

  sim::Rank& rank_;
  std::uint64_t seed_;
  std::vector<std::unique_ptr<Communicator>> parts_;
};

}  // namespace

void exact_reductions(sim::Rank& rank, std::uint64_t seed, int rounds) {
  ExactReductions program(rank, seed);
  for (int number = 0; number < rounds; ++number) program.round(number);
}

}  // namespace test
