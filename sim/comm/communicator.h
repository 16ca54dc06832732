#pragma once

/// One rank's handle on one process group. The public half checks every call, records it and counts its
/// bytes; a backend supplies the private half, so every backend runs the same checks up to the last line.
///
/// Shapes  n members. Tensors are handles: outputs are written through them.
///           all_reduce          inout [any]: becomes the fold of all
///           reduce_scatter      input n blocks -> output 1 block: block p of the fold, at place p
///           all_gather          input 1 block -> output n blocks, in the group's order. Of these two the one
///                               block may be the member's own of the n
///           broadcast           inout: the root's everywhere.  reduce: inout, the fold at the root only
///           gather, scatter     the n blocks lie at the root; the other side may be a Tensor() elsewhere
///           all_to_all          input n blocks, output n blocks: block q goes to place q
///           all_to_all_uneven   rows of the first dimension: send_rows[q] go to place q, receive_rows[q]
///                               come
///           send, recv          to and from a place of the group
/// Calls   every member makes the same calls in the same order. start_ forms return Work: the buffers may not
///         be touched until its wait() has returned. A group of one is the identity, decided here.
/// Errors  thrown in the rank that calls: wrong_rank (another rank's communicator, or one kept beyond its
///         world), null_tensor, wrong_device, dtype_mismatch, call_shape, call_root, call_peer,
///         call_operation, split_rows, overlapping_buffers, buffer_in_flight_read, buffer_in_flight_write,
///         call_limit. What members disagree on is found by the backend.
/// Source  torch.distributed and NCCL, whose names these are.

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "sim/comm/call.h"
#include "sim/comm/recorder.h"
#include "sim/comm/work.h"

namespace sim {

/// One of several sends and receives that are started together.
struct PointToPoint {
  Operation operation;  // send or recv
  Tensor tensor;
  int peer;  // place in the group
};

class Communicator {
 public:
  Communicator(const ProcessGroup& group, int place, Device& device, std::shared_ptr<Recorder> recorder);
  virtual ~Communicator() = default;
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  const ProcessGroup& group() const { return group_; }
  int rank() const { return place_; }  // this rank's place
  int size() const { return group_.size(); }
  int global_rank() const { return group_.rank_at(place_); }

  void all_reduce(const Tensor& inout, ReduceOp op, Site site);
  void reduce_scatter(const Tensor& input, const Tensor& output, ReduceOp op, Site site);
  void all_gather(const Tensor& input, const Tensor& output, Site site);
  void broadcast(const Tensor& inout, int root, Site site);
  void reduce(const Tensor& inout, ReduceOp op, int root, Site site);
  void gather(const Tensor& input, const Tensor& output_at_root, int root, Site site);
  void scatter(const Tensor& input_at_root, const Tensor& output, int root, Site site);
  void all_to_all(const Tensor& input, const Tensor& output, Site site);
  void all_to_all_uneven(const Tensor& input, std::vector<std::int64_t> send_rows, const Tensor& output,
                         std::vector<std::int64_t> receive_rows, Site site);
  void send(const Tensor& tensor, int peer, Site site);
  void recv(const Tensor& tensor, int peer, Site site);
  /// Sends and receives that progress independently of each other.
  void batch(std::span<const PointToPoint> calls, Site site);
  void barrier(Site site);

  [[nodiscard]] Work start_all_reduce(const Tensor& inout, ReduceOp op, Site site);
  [[nodiscard]] Work start_reduce_scatter(const Tensor& input, const Tensor& output, ReduceOp op, Site site);
  [[nodiscard]] Work start_all_gather(const Tensor& input, const Tensor& output, Site site);
  [[nodiscard]] Work start_broadcast(const Tensor& inout, int root, Site site);
  [[nodiscard]] Work start_reduce(const Tensor& inout, ReduceOp op, int root, Site site);
  [[nodiscard]] Work start_gather(const Tensor& input, const Tensor& output_at_root, int root, Site site);
  [[nodiscard]] Work start_scatter(const Tensor& input_at_root, const Tensor& output, int root, Site site);
  [[nodiscard]] Work start_all_to_all(const Tensor& input, const Tensor& output, Site site);
  [[nodiscard]] Work start_all_to_all_uneven(const Tensor& input, std::vector<std::int64_t> send_rows,
                                             const Tensor& output, std::vector<std::int64_t> receive_rows,
                                             Site site);
  [[nodiscard]] Work start_send(const Tensor& tensor, int peer, Site site);
  [[nodiscard]] Work start_recv(const Tensor& tensor, int peer, Site site);
  [[nodiscard]] Work start_batch(std::span<const PointToPoint> calls, Site site);
  [[nodiscard]] Work start_barrier(Site site);

  /// The members of one color, ordered by key and then by place, as a group of their own; null for a negative
  /// color.
  std::unique_ptr<Communicator> split(int color, int key, Site site);

 protected:
  /// "tp[3] = {12, 13}, rank 12, all_reduce 'mlp.forward' (mlp.cpp:40)"
  std::string describe(const Call& call) const;
  Recorder& recorder() { return *recorder_; }
  /// Checks a call, numbers it and records it. The number of the record.
  std::size_t record_call(Call& call);

 private:
  /// A call of several members that has been checked and recorded: every operation but split and new_group.
  virtual std::unique_ptr<Pending> do_call(Call&& call) = 0;
  virtual std::unique_ptr<Communicator> do_split(Call&& call) = 0;

  void run(Call call);
  Work start(Call call);
  void start_into(Work& work, Call call);
  void check_caller(const Call& call) const;
  void check_places(const Call& call) const;
  void check_tensors(Call& call) const;
  void check_tensor(const Call& call, const Tensor& tensor, Access access) const;
  bool is_own_block(const Call& call) const;
  void check_counts(Call& call) const;
  void check_uneven(const Call& call) const;
  [[noreturn]] void refuse_call(const Call& call, const char* code, std::string numbers, const char* rule,
                                const char* hint) const;
  void copy_as_identity(const Call& call) const;
  std::int64_t next_sequence(const Call& call);

  const ProcessGroup& group_;
  int place_;
  Device& device_;
  std::shared_ptr<Recorder> recorder_;
  std::int64_t collectives_ = 0;
  std::map<int, std::int64_t> sent_, received_;  // messages to and from a peer
};

}  // namespace sim
