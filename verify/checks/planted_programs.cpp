#include "verify/checks/planted_programs.h"

#include <algorithm>
#include <cstdint>
#include <stdexcept>

namespace verify {

namespace {

using sim::Communicator;
using sim::DType;
using sim::Rank;
using sim::ReduceOp;
using sim::Tensor;
using sim::Work;

constexpr std::int64_t kElements = 4;

Tensor ones(Rank& rank, std::int64_t count = kElements, DType dtype = DType::f32) {
  return sim::filled(rank.device, dtype, {count}, 1);
}

Communicator& world(Rank& rank) { return rank.groups.world(); }
int place(Rank& rank) { return world(rank).rank(); }
int rank_at(Rank& rank, int place) { return world(rank).group().rank_at(place); }
std::vector<int> first_two(Rank& rank) { return {rank_at(rank, 0), rank_at(rank, 1)}; }

/// Whether a rank misbehaves: the first two ranks of the world do.
bool misbehaves(Rank& rank) { return place(rank) < 2; }

void well_behaved(Rank& rank) {
  const Tensor x = ones(rank);
  world(rank).all_reduce(x, ReduceOp::sum, "well_behaved.sum");
  rank.publish("x", x);
  world(rank).barrier("well_behaved.barrier");
}

void mutual_send(Rank& rank) {
  if (!misbehaves(rank)) return;
  const Tensor out = ones(rank);
  const Tensor in = ones(rank);
  world(rank).send(out, 1 - place(rank), "mutual_send.send");
  world(rank).recv(in, 1 - place(rank), "mutual_send.recv");
}

void mutual_recv(Rank& rank) {
  if (!misbehaves(rank)) return;
  world(rank).recv(ones(rank), 1 - place(rank), "mutual_recv.recv");
  world(rank).send(ones(rank), 1 - place(rank), "mutual_recv.send");
}

void crossed_groups(Rank& rank) {
  Communicator* pair = rank.groups.new_group("pair", first_two(rank), "crossed_groups.pair");
  const Tensor x = ones(rank);
  if (place(rank) == 1) pair->all_reduce(x, ReduceOp::sum, "crossed_groups.pair_sum");
  world(rank).all_reduce(x, ReduceOp::sum, "crossed_groups.world_sum");
  if (place(rank) == 0) pair->all_reduce(x, ReduceOp::sum, "crossed_groups.pair_sum");
}

void lucky_order(Rank& rank) {
  Communicator* pair = rank.groups.new_group("pair", first_two(rank), "lucky_order.pair");
  const Tensor x = ones(rank);
  const Tensor y = ones(rank);
  Work of_pair;
  if (place(rank) == 1) of_pair = pair->start_all_reduce(x, ReduceOp::sum, "lucky_order.pair_sum");
  Work of_world = world(rank).start_all_reduce(y, ReduceOp::sum, "lucky_order.world_sum");
  if (place(rank) == 0) of_pair = pair->start_all_reduce(x, ReduceOp::sum, "lucky_order.pair_sum");
  of_pair.wait();
  of_world.wait();
}

void missing_rank(Rank& rank) {
  if (place(rank) == 1) return;
  world(rank).all_reduce(ones(rank), ReduceOp::sum, "missing_rank.sum");
}

void leaves_early(Rank& rank) {
  for (int step = 0; step < (place(rank) == 1 ? 2 : 3); ++step) {
    world(rank).all_reduce(ones(rank), ReduceOp::sum, "leaves_early.sum");
  }
}

void wrong_kind(Rank& rank) {
  const Tensor x = ones(rank);
  if (place(rank) == 1) {
    world(rank).broadcast(x, 0, "wrong_kind.broadcast");
  } else {
    world(rank).all_reduce(x, ReduceOp::sum, "wrong_kind.sum");
  }
}

void wrong_count(Rank& rank) {
  world(rank).all_reduce(ones(rank, place(rank) == 1 ? kElements + 1 : kElements), ReduceOp::sum,
                         "wrong_count.sum");
}

void wrong_dtype(Rank& rank) {
  const DType dtype = place(rank) == 1 ? DType::i32 : DType::f32;
  world(rank).all_reduce(ones(rank, kElements, dtype), ReduceOp::sum, "wrong_dtype.sum");
}

void wrong_reduction(Rank& rank) {
  world(rank).all_reduce(ones(rank), place(rank) == 1 ? ReduceOp::max : ReduceOp::sum,
                         "wrong_reduction.reduce");
}

void wrong_root(Rank& rank) {
  world(rank).broadcast(ones(rank), place(rank) == 1 ? 1 : 0, "wrong_root.broadcast");
}

/// Rank 0 sends all its rows to itself, but rank 1 expects to receive one row from it.
void wrong_split(Rank& rank) {
  const auto n = static_cast<std::size_t>(world(rank).size());
  std::vector<std::int64_t> send_rows(n, 0);
  std::vector<std::int64_t> receive_rows(n, 0);
  send_rows[static_cast<std::size_t>(place(rank))] = receive_rows[static_cast<std::size_t>(place(rank))] =
      kElements;
  if (place(rank) == 1) receive_rows[0] = 1;
  const Tensor output = ones(rank, place(rank) == 1 ? kElements + 1 : kElements);
  world(rank).all_to_all_uneven(ones(rank), send_rows, output, receive_rows, "wrong_split.exchange");
}

void message_size(Rank& rank) {
  if (place(rank) == 0) world(rank).send(ones(rank), 1, "message_size.send");
  if (place(rank) == 1) world(rank).recv(ones(rank, kElements - 1), 0, "message_size.recv");
}

void message_dtype(Rank& rank) {
  if (place(rank) == 0) world(rank).send(ones(rank), 1, "message_dtype.send");
  if (place(rank) == 1) world(rank).recv(ones(rank, kElements, DType::i32), 0, "message_dtype.recv");
}

void lonely_send(Rank& rank) {
  if (place(rank) == 0) world(rank).send(ones(rank), 1, "lonely_send.send");
}

void lonely_recv(Rank& rank) {
  if (place(rank) == 1) world(rank).recv(ones(rank), 0, "lonely_recv.recv");
}

void reads_in_flight(Rank& rank) {
  const Tensor x = ones(rank);
  Work work = world(rank).start_all_reduce(x, ReduceOp::sum, "reads_in_flight.sum");
  if (place(rank) == 1) rank.publish("x", x);
  work.wait();
}

void writes_in_flight(Rank& rank) {
  Tensor x = ones(rank);
  const Tensor y = ones(rank, kElements * world(rank).size());
  Work work = world(rank).start_all_gather(x, y, "writes_in_flight.gather");
  if (place(rank) == 1) sim::fill(x, 2);
  work.wait();
}

void overlapping(Rank& rank) {
  const std::int64_t n = world(rank).size();
  const Tensor whole = ones(rank, n * kElements);
  const std::int64_t own = (place(rank) + 1) % n * kElements;  // rows that another rank's block is written to
  const Tensor block = place(rank) == 1 ? whole.rows(own, own + kElements) : ones(rank);
  world(rank).all_gather(block, whole, "overlapping.gather");
}

void forgets_wait(Rank& rank) {
  Work work = world(rank).start_all_reduce(ones(rank), ReduceOp::sum, "forgets_wait.sum");
  if (place(rank) != 1) work.wait();
}

void groups_in_other_order(Rank& rank) {
  const bool other = place(rank) == 1;
  rank.groups.new_group("one", {rank_at(rank, other ? 1 : 0)}, "groups_in_other_order.first");
  rank.groups.new_group("one", {rank_at(rank, other ? 0 : 1)}, "groups_in_other_order.second");
}

void group_not_by_all(Rank& rank) {
  if (place(rank) != 1) rank.groups.new_group("pair", first_two(rank), "group_not_by_all.pair");
  world(rank).barrier("group_not_by_all.barrier");
}

void split_not_by_all(Rank& rank) {
  if (place(rank) != 1) world(rank).split(0, place(rank), "split_not_by_all.split");
}

void throws(Rank& rank) {
  if (place(rank) == 1) throw std::runtime_error("planted");
  world(rank).barrier("throws.barrier");
}

}  // namespace

const std::vector<PlantedProgram>& planted_programs() {
  static const std::vector<PlantedProgram> programs = {
      {"well_behaved", "", "none", well_behaved},
      {"mutual_send", "deadlock", "two ranks send to each other before either receives", mutual_send},
      {"mutual_recv", "deadlock", "two ranks receive from each other before either sends", mutual_recv},
      {"crossed_groups", "deadlock", "two ranks use two groups in opposite orders", crossed_groups},
      {"lucky_order", "potential_deadlock",
       "two ranks start calls of two groups in opposite orders, which may deadlock", lucky_order},
      {"missing_rank", "missing_ranks", "one rank never enters the collective", missing_rank},
      {"leaves_early", "left_early", "one rank makes one call fewer than the others", leaves_early},
      {"wrong_kind", "collective_type_mismatch", "broadcast on one rank, all_reduce on the others",
       wrong_kind},
      {"wrong_count", "size_or_syntax_mismatch", "one rank passes one element more than the others",
       wrong_count},
      {"wrong_dtype", "collective_dtype_mismatch", "i32 on one rank, f32 on the others", wrong_dtype},
      {"wrong_reduction", "reduction_mismatch", "max on one rank, sum on the others", wrong_reduction},
      {"wrong_root", "root_mismatch", "one rank names another root than the others", wrong_root},
      {"wrong_split", "split_size_mismatch", "a rank expects a row that nobody sends", wrong_split},
      {"message_size", "message_size_mismatch", "a recv of fewer elements than were sent", message_size},
      {"message_dtype", "message_dtype_mismatch", "a recv of another dtype than was sent", message_dtype},
      {"lonely_send", "unmatched_send", "a send that nobody receives", lonely_send},
      {"lonely_recv", "unmatched_recv", "a recv to which nobody sends", lonely_recv},
      {"reads_in_flight", "buffer_in_flight_read", "a buffer is read before wait()", reads_in_flight},
      {"writes_in_flight", "buffer_in_flight_write", "a buffer is written before wait()", writes_in_flight},
      {"overlapping", "overlapping_buffers", "one call reads a buffer that it also writes", overlapping},
      {"forgets_wait", "pending_work", "one rank never waits for what it started", forgets_wait},
      {"groups_in_other_order", "group_order_mismatch", "one rank creates two groups in the other order",
       groups_in_other_order},
      {"group_not_by_all", "group_not_created_by_all", "one rank does not create a group", group_not_by_all},
      {"split_not_by_all", "group_not_created_by_all", "one rank does not take part in a split",
       split_not_by_all},
      {"throws", "rank_threw", "one rank throws", throws},
  };
  return programs;
}

const PlantedProgram* planted_program(std::string_view name) {
  const auto& all = planted_programs();
  const auto found = std::ranges::find_if(all, [&](const PlantedProgram& p) { return name == p.name; });
  return found == all.end() ? nullptr : &*found;
}

}  // namespace verify
