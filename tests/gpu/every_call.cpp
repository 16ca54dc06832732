#include "tests/gpu/every_call.h"

#include <algorithm>
#include <deque>
#include <fmt/format.h>
#include <numeric>
#include <utility>
#include <vector>

namespace test {

namespace {

using namespace sim;

struct Begun {
  std::string name;
  Tensor output;
  Work work;
  int due = 0;  // step
};

class EveryCall {
 public:
  EveryCall(Rank& rank, std::uint64_t seed) : rank_(rank), seed_(seed) {}

  void step(int number) {
    number_ = number;
    random_ = KeyedRandom(seed_).named(fmt::format("step {}", number));
    next_ = 0;
    const auto operation = static_cast<Operation>(below(kEveryCall));
    const std::int64_t kind = below(std::ssize(rank_.layout.kinds) + 1);
    dtype_ = std::vector<DType>{DType::f64, DType::f32, DType::bf16,
                                DType::i32}[static_cast<std::size_t>(below(4))];
    count_ = below(below(8) == 0 ? 3000 : 20);
    op_ = static_cast<ReduceOp>(below(5));
    const std::int64_t root = below(1 << 20);
    due_ = number + static_cast<int>(below(4));
    finish(number);
    if (operation == Operation::new_group) return new_group();
    Communicator* group =
        kind == 0 ? &rank_.groups.world()
                  : rank_.groups.find(rank_.layout.kinds[static_cast<std::size_t>(kind - 1)].name());
    if (group != nullptr) in_group(operation, *group, static_cast<int>(root % group->size()));
    finish(number);
  }

  void finish(int step) {
    for (auto begun = begun_.begin(); begun != begun_.end();) {
      if (begun->due > step) {
        ++begun;
        continue;
      }
      begun->work.wait();
      if (!begun->output.is_none()) rank_.publish(begun->name, begun->output);
      begun = begun_.erase(begun);
    }
  }

 private:
  std::int64_t below(std::int64_t bound) {
    return std::int64_t{random_.below(next_++, static_cast<std::uint32_t>(bound))};
  }
  /// The rank's own.
  Tensor given(const char* name, std::int64_t count) {
    return keyed(rank_.device, dtype_, {count}, random_.named(fmt::format("{} {}", name, rank_.id)));
  }
  std::int64_t rows(int from, int to) const {
    return std::int64_t{random_.below(static_cast<std::uint64_t>(1000 + from * 64 + to), 4)};
  }
  void keep(const Tensor& output, Work work) {
    begun_.push_back({fmt::format("step {}", number_), output, std::move(work), due_});
  }

  void new_group() {
    const int n = rank_.groups.world().size();
    std::vector<int> members;
    for (int i = 0; i < n; ++i) {
      if (below(2) == 0) members.push_back(i);
    }
    if (members.empty()) members.push_back(static_cast<int>(below(n)));
    if (below(2) == 0) std::reverse(members.begin(), members.end());
    Communicator* made = rank_.groups.new_group(fmt::format("made {}", number_), members, "new_group");
    if (made != nullptr) reduce_in(*made);
  }

  void reduce_in(Communicator& group) {
    const Tensor x = given("x", count_);
    keep(x, group.start_all_reduce(x, op_, "reduce_in"));
  }

  void uneven(Communicator& group) {
    constexpr std::int64_t kColumns = 3;
    std::vector<std::int64_t> send, receive;
    for (int peer = 0; peer < group.size(); ++peer) {
      send.push_back(rows(group.rank(), peer));
      receive.push_back(rows(peer, group.rank()));
    }
    const std::int64_t sent = std::accumulate(send.begin(), send.end(), std::int64_t{0});
    const std::int64_t received = std::accumulate(receive.begin(), receive.end(), std::int64_t{0});
    const Tensor out = given("out", received * kColumns).reshaped({received, kColumns});
    keep(out, group.start_all_to_all_uneven(given("x", sent * kColumns).reshaped({sent, kColumns}), send, out,
                                            receive, "every.all_to_all_uneven"));
  }

  void in_group(Operation operation, Communicator& group, int root) {
    const int n = group.size();
    const int place = group.rank();
    const bool is_root = place == root;
    const Tensor block = given("block", count_);
    const Tensor whole = given("whole", n * count_);
    const Tensor other = given("other", n * count_);
    switch (operation) {
      case Operation::all_reduce:
        return keep(block, group.start_all_reduce(block, op_, "every.all_reduce"));
      case Operation::reduce_scatter:
        return keep(block, group.start_reduce_scatter(whole, block, op_, "every.reduce_scatter"));
      case Operation::all_gather:
        return keep(whole, group.start_all_gather(block, whole, "every.all_gather"));
      case Operation::broadcast:
        return keep(block, group.start_broadcast(block, root, "every.broadcast"));
      case Operation::reduce:
        return keep(block, group.start_reduce(block, op_, root, "every.reduce"));
      case Operation::gather:
        return keep(is_root ? whole : Tensor(),
                    group.start_gather(block, is_root ? whole : Tensor(), root, "every.gather"));
      case Operation::scatter:
        return keep(block, group.start_scatter(is_root ? whole : Tensor(), block, root, "every.scatter"));
      case Operation::all_to_all:
        return keep(whole, group.start_all_to_all(other, whole, "every.all_to_all"));
      case Operation::all_to_all_uneven:
        return uneven(group);
      case Operation::send: {
        if (n == 1) return;
        const Tensor in = given("in", count_);
        const std::vector<PointToPoint> ring = {{Operation::send, block, (place + 1) % n},
                                                {Operation::recv, in, (place + n - 1) % n}};
        return keep(in, group.start_batch(ring, "every.ring"));
      }
      case Operation::recv: {
        if (n == 1 || is_root) {
          for (int peer = 0; peer < n; ++peer) {
            if (peer != place) keep(Tensor(), group.start_send(block, peer, "every.send"));
          }
          return;
        }
        return keep(whole.rows(0, count_), group.start_recv(whole.rows(0, count_), root, "every.recv"));
      }
      case Operation::barrier:
        return group.barrier("every.barrier");
      case Operation::split: {
        if (n == 1) return;
        const std::int64_t parts = 1 + below(3);
        const auto part = group.split(static_cast<int>((place + root) % parts) - static_cast<int>(below(2)),
                                      -place, "every.split");
        if (part == nullptr) return;
        Tensor x = block;
        part->all_reduce(x, op_, "every.part");
        rank_.publish(fmt::format("part {}", number_), x);
        return;
      }
      case Operation::new_group:
        break;
    }
  }

  Rank& rank_;
  std::uint64_t seed_;
  int number_ = 0;
  KeyedRandom random_{0};
  std::uint64_t next_ = 0;
  DType dtype_ = DType::f32;
  std::int64_t count_ = 0;
  ReduceOp op_ = ReduceOp::sum;
  int due_ = 0;
  std::deque<Begun> begun_;
};

}  // namespace

void every_call(Rank& rank, std::uint64_t seed, int steps) {
  EveryCall program(rank, seed);
  for (int number = 0; number < steps; ++number) program.step(number);
  program.finish(steps + 4);
}

std::string first_difference(const RankReport& expected, const RankReport& found) {
  if (expected.published.size() != found.published.size())
    return fmt::format("{} tensors and {}", expected.published.size(), found.published.size());
  for (std::size_t i = 0; i < expected.published.size(); ++i) {
    const Published& left = expected.published[i];
    const Published& right = found.published[i];
    if (left.name != right.name) return fmt::format("{} and {}", left.name, right.name);
    if (left.values != right.values)
      return fmt::format("{}, {} {}", left.name, name_of(left.dtype), left.shape.count());
  }
  if (expected.calls.size() != found.calls.size())
    return fmt::format("{} calls and {}", expected.calls.size(), found.calls.size());
  for (std::size_t i = 0; i < expected.calls.size(); ++i) {
    const CallRecord& left = expected.calls[i];
    const CallRecord& right = found.calls[i];
    const bool is_same = left.operation == right.operation && left.count == right.count &&
                         left.sequence == right.sequence && left.bytes_inside == right.bytes_inside &&
                         left.bytes_across == right.bytes_across && left.root_or_peer == right.root_or_peer;
    if (!is_same)
      return fmt::format("call {}: {} and {}", i, name_of(left.operation), name_of(right.operation));
  }
  return "";
}

}  // namespace test
