#include "verify/backends/random_calls.h"

#include <array>
#include <cstddef>
#include <deque>
#include <fmt/format.h>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace verify {

namespace {

using sim::Communicator;
using sim::DType;
using sim::Operation;
using sim::ReduceOp;
using sim::Tensor;

/// The numbers that a step draws. They are the same on every rank.
class Draws {
 public:
  Draws(std::uint64_t seed, int step) : random_(sim::KeyedRandom(seed).named(fmt::format("step {}", step))) {}
  std::int64_t below(std::int64_t bound) {
    return std::int64_t{random_.below(next_++, static_cast<std::uint32_t>(bound))};
  }
  /// Returns a number for a pair of places. It is drawn outside of the sequence of below().
  std::int64_t of_pair(int from, int to, int members, std::int64_t bound) const {
    const auto index = std::uint64_t{1000} + static_cast<std::uint64_t>(from * members + to);
    return std::int64_t{random_.below(index, static_cast<std::uint32_t>(bound))};
  }
  const sim::KeyedRandom& random() const { return random_; }

 private:
  sim::KeyedRandom random_;
  std::uint64_t next_ = 0;
};

/// A step whose calls have begun. Its outputs are published when the calls are over.
struct Begun {
  std::string name;
  std::vector<Tensor> outputs;
  sim::Work work;
  int due = 0;  // the step before which it is waited for
};

struct Sizes {
  DType dtype;
  std::int64_t count;
  ReduceOp op;
  sim::Ratio factor;  // of the inputs of started reductions
  int root;
  bool starts;
};

class RandomProgram {
 public:
  RandomProgram(sim::Rank& rank, const RandomCalls& calls) : rank_(rank), calls_(calls) {}

  void step(int number) {
    Draws draws(calls_.seed, number);
    const auto operation = static_cast<Operation>(number % kOperations);
    const std::int64_t kind = kind_of(number);
    // A few counts are large, so that the transport moves them in several pieces.
    const bool is_large = draws.below(8) == 0;
    const std::int64_t dtype = draws.below(std::ssize(calls_.dtypes));
    Sizes sizes{.dtype = calls_.dtypes[static_cast<std::size_t>(dtype)],
                .count = draws.below(is_large ? 3000 : 20),
                .op = static_cast<ReduceOp>(draws.below(5)),
                .factor = factor_of(draws),
                .root = 0,
                .starts = draws.below(2) == 0};
    const std::int64_t root = draws.below(1 << 20);
    finish_due(number);
    if (operation == Operation::new_group) return new_group(number, draws, sizes);
    Communicator* group =
        kind == 0 ? &rank_.groups.world()
                  : rank_.groups.find(rank_.layout.kinds[static_cast<std::size_t>(kind - 1)].name());
    if (group == nullptr) return;
    sizes.root = static_cast<int>(root % group->size());
    in_group(number, operation, *group, draws, sizes);
  }

  /// The kind of group of a step: 0 is the world, the kinds of the layout follow.
  std::int64_t kind_of(int step) const {
    const auto kinds = std::ssize(rank_.layout.kinds) + 1;
    const sim::KeyedRandom first = sim::KeyedRandom(calls_.seed).named("first kinds");
    const auto operation = static_cast<std::uint64_t>(step % kOperations);
    return (step / kOperations + std::int64_t{first.below(operation, static_cast<std::uint32_t>(kinds))}) %
           kinds;
  }

  void finish_due(int step) {
    while (!begun_.empty() && begun_.front().due <= step) {
      begun_.front().work.wait();
      publish(begun_.front().name, begun_.front().outputs);
      begun_.pop_front();
    }
  }

 private:
  void publish(const std::string& name, const std::vector<Tensor>& outputs) {
    for (const Tensor& output : outputs) rank_.publish(name, output);
  }

  /// Twice a value that is exact in any order is exact, too.
  sim::Ratio factor_of(const Draws& draws) const {
    const sim::KeyedRandom random = draws.random().named("factor");
    if (random.below(0, 2) == 0) return {};
    return calls_.any_order ? sim::Ratio{2, 1} : sim::Ratio{1, 1 + random.below(1, 5)};
  }

  Tensor drawn(const sim::KeyedRandom& random, const Sizes& sizes, const sim::Shape& shape) {
    if (!calls_.any_order) return sim::keyed(rank_.device, sizes.dtype, shape, random);
    constexpr std::array<std::int32_t, 4> kExact = {-2, -1, 1, 2};
    std::vector<std::int32_t> values;
    for (std::uint64_t i = 0; std::ssize(values) < shape.count(); ++i)
      values.push_back(kExact[random.below(i, kExact.size())]);
    return sim::cast(
        sim::from_host(rank_.device, DType::i32, shape, std::as_bytes(std::span<const std::int32_t>(values))),
        sizes.dtype);
  }
  Tensor keyed(const Draws& draws, const char* name, const Sizes& sizes, std::int64_t count) {
    return drawn(draws.random().named(fmt::format("{} {}", name, rank_.id)), sizes, {count});
  }
  Tensor keyed_rows(const Draws& draws, const Sizes& sizes, std::int64_t rows) {
    constexpr std::int64_t kColumns = 3;
    return drawn(draws.random().named(fmt::format("rows {}", rank_.id)), sizes, {rows, kColumns});
  }

  void in_group(int number, Operation operation, Communicator& group, Draws& draws, const Sizes& sizes) {
    const std::string name = fmt::format("step {} {}", number, sim::name_of(operation));
    if (operation == Operation::split) return split(name, group, draws, sizes);
    const std::int64_t n = group.size();
    const Tensor block = keyed(draws, "block", sizes, sizes.count);
    const Tensor whole = keyed(draws, "whole", sizes, n * sizes.count);
    Begun begun{name, {}, {}, number + 1 + static_cast<int>(draws.below(3))};
    const auto starts = [&](const Tensor& output, sim::Work work) {
      begun.outputs = {output};
      begun.work = std::move(work);
    };
    switch (operation) {
      case Operation::all_reduce:
        starts(block, group.start_all_reduce(block, {sizes.op, sizes.factor}, "random.all_reduce"));
        break;
      case Operation::reduce_scatter:
        starts(block,
               group.start_reduce_scatter(whole, block, {sizes.op, sizes.factor}, "random.reduce_scatter"));
        break;
      case Operation::all_gather:
        starts(whole, group.start_all_gather(block, whole, "random.all_gather"));
        break;
      case Operation::broadcast:
        starts(block, group.start_broadcast(block, sizes.root, "random.broadcast"));
        break;
      case Operation::reduce:
        starts(block, group.start_reduce(block, sizes.op, sizes.root, "random.reduce"));
        break;
      case Operation::gather:
        starts(whole, group.start_gather(block, whole, sizes.root, "random.gather"));
        break;
      case Operation::scatter:
        starts(block, group.start_scatter(whole, block, sizes.root, "random.scatter"));
        break;
      case Operation::all_to_all: {
        const Tensor received = keyed(draws, "received", sizes, n * sizes.count);
        starts(received, group.start_all_to_all(whole, received, "random.all_to_all"));
        break;
      }
      case Operation::all_to_all_uneven:
        begun_uneven(begun, group, draws, sizes);
        break;
      case Operation::send:
        return send_in_turn(name, group, block, draws, sizes);
      case Operation::recv:
        begun_ring(begun, group, block, draws, sizes);
        break;
      default:
        begun.work = group.start_barrier("random.barrier");
        break;
    }
    begin(number, std::move(begun), sizes.starts);
  }

  void begin(int number, Begun begun, bool starts) {
    begun_.push_back(std::move(begun));
    if (starts) return;
    // This call is waited for at once. The calls before it are waited for first, in the order in which they
    // were started.
    for (Begun& each : begun_) each.due = number;
    finish_due(number);
  }

  void begun_uneven(Begun& begun, Communicator& group, const Draws& draws, const Sizes& sizes) {
    std::vector<std::int64_t> send_rows, receive_rows;
    std::int64_t sent = 0, received = 0;
    constexpr std::int64_t kMostRows = 4;
    for (int other = 0; other < group.size(); ++other) {
      send_rows.push_back(draws.of_pair(group.rank(), other, group.size(), kMostRows));
      receive_rows.push_back(draws.of_pair(other, group.rank(), group.size(), kMostRows));
      sent += send_rows.back();
      received += receive_rows.back();
    }
    const Tensor output = keyed_rows(draws, sizes, received);
    begun.outputs = {output};
    begun.work = group.start_all_to_all_uneven(keyed_rows(draws, sizes, sent), std::move(send_rows), output,
                                               std::move(receive_rows), "random.all_to_all_uneven");
  }

  /// Sends to the member `by` places after this one, and receives from the member `by` places before. It does
  /// so twice, so that the order of the messages of a pair matters.
  void begun_ring(Begun& begun, Communicator& group, const Tensor& block, Draws& draws, const Sizes& sizes) {
    const int n = group.size();
    if (n == 1) return;
    const int by = 1 + static_cast<int>(draws.below(n - 1));
    const int to = (group.rank() + by) % n;
    const int from = (group.rank() + n - by) % n;
    const Tensor other = keyed(draws, "other", sizes, sizes.count + 1);
    const Tensor first = keyed(draws, "first", sizes, sizes.count);
    const Tensor second = keyed(draws, "second", sizes, sizes.count + 1);
    begun.outputs = {first, second};
    begun.work = group.start_batch(std::vector<sim::PointToPoint>{{Operation::send, block, to},
                                                                  {Operation::recv, first, from},
                                                                  {Operation::send, other, to},
                                                                  {Operation::recv, second, from}},
                                   "random.ring");
  }

  /// Exchanges a message between neighbours, of which the even one sends first.
  void send_in_turn(const std::string& name, Communicator& group, const Tensor& block, const Draws& draws,
                    const Sizes& sizes) {
    const int peer = group.rank() ^ 1;
    if (peer >= group.size()) return;
    const Tensor received = keyed(draws, "received", sizes, sizes.count);
    if (group.rank() < peer) group.send(block, peer, "random.send");
    group.recv(received, peer, "random.recv");
    if (group.rank() > peer) group.send(block, peer, "random.send");
    publish(name, {received});
  }

  void sum_in(const std::string& name, Communicator* group, const Draws& draws, const Sizes& sizes) {
    if (group == nullptr) return;
    const Tensor sum = keyed(draws, "block", sizes, sizes.count);
    group->all_reduce(sum, sizes.op, "random.in_part");
    publish(name, {sum});
  }

  void split(const std::string& name, Communicator& group, const Draws& draws, const Sizes& sizes) {
    const int n = group.size();
    constexpr std::int64_t kColors = 3;
    const auto color = static_cast<int>(draws.of_pair(group.rank(), 0, n, kColors)) - 1;
    const auto key = static_cast<int>(draws.of_pair(0, group.rank(), n, kColors));
    const std::unique_ptr<Communicator> part = group.split(color, key, "random.split");
    sum_in(name, part.get(), draws, sizes);
  }

  void new_group(int number, Draws& draws, const Sizes& sizes) {
    Communicator& world = rank_.groups.world();
    std::vector<int> members;
    for (int place = 0; place < world.size(); ++place) {
      if (draws.below(2) == 0) members.push_back(world.group().rank_at(place));
    }
    if (members.empty()) members.push_back(world.group().rank_at(0));
    if (draws.below(2) == 0) members = {members.rbegin(), members.rend()};
    const std::string name = fmt::format("drawn{}", number);
    sum_in(name, rank_.groups.new_group(name, members, "random.new_group"), draws, sizes);
  }

  sim::Rank& rank_;
  const RandomCalls& calls_;
  std::deque<Begun> begun_;
};

}  // namespace

int steps_for_every_kind(const sim::Layout& layout) {
  return kOperations * (static_cast<int>(layout.kinds.size()) + 1);
}

void random_calls(sim::Rank& rank, const RandomCalls& calls) {
  constexpr int kAtTheEnd = 4;  // every started step is due before this many steps have passed
  RandomProgram program(rank, calls);
  for (int number = 0; number < calls.steps; ++number) program.step(number);
  program.finish_due(calls.steps + kAtTheEnd);
}

}  // namespace verify
