#pragma once

/// One rank's handle on one process group. The public functions check every call, record it and count its
/// bytes. A backend implements the private virtual functions, so all backends share the same checks.
///
/// Shapes  the group has n members. Tensors are handles: outputs are written through them.
///           all_reduce          inout [any]: becomes the fold over all members
///           reduce_scatter      input n blocks -> output 1 block: place p gets block p of the fold
///           all_gather          input 1 block -> output n blocks, in the order of the group. In
///                               reduce_scatter and all_gather the single block may be this member's own
///                               block of the n (in place)
///           broadcast           inout: becomes the root's tensor on every member
///           reduce              inout: becomes the fold at the root only
///           gather, scatter     the n blocks lie at the root; other members may pass Tensor() in their place
///           all_to_all          input n blocks, output n blocks: block q of the input goes to place q
///           all_to_all_uneven   rows of the first dimension: send_rows[q] rows go to place q,
///                               receive_rows[q] rows come from place q
///           send, recv          the peer is a place of the group
/// Calls   every member makes the same calls in the same order. The start_ forms return a Work: the program
///         must not touch the buffers until its wait() has returned. In a group of one member every operation
///         except split is the identity; this class handles it without the backend. A started reduction may
///         have a factor of its inputs (reduce_op.h). Whether an input that is not an output has been
///         multiplied afterwards is up to the backend.
/// Errors  thrown in the rank that calls: wrong_rank (the communicator belongs to another rank, or its world
///         is over), null_tensor, wrong_device, dtype_mismatch, call_shape, call_root, call_peer,
///         call_operation, split_rows, bad_ratio, overlapping_buffers, buffer_in_flight_read,
///         buffer_in_flight_write, call_limit. The backend finds the values on which members disagree.
/// Source  torch.distributed and NCCL; the operations have their names.

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "sim/comm/call.h"
#include "sim/comm/recorder.h"
#include "sim/comm/work.h"

namespace sim {

/// One send or recv of a batch, whose calls are started together.
struct PointToPoint {
  Operation operation;  // send or recv
  Tensor tensor;
  int peer;  // place in the group
};

class Communicator {
 public:
  Communicator(const ProcessGroup& group, int place, Device& device, std::shared_ptr<Recorder> recorder,
               CallTensors of_blocking_calls = CallTensors::own);
  virtual ~Communicator() = default;
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  const ProcessGroup& group() const { return group_; }
  int rank() const { return place_; }  // this rank's place in the group
  int size() const { return group_.size(); }
  int global_rank() const { return group_.rank_at(place_); }

  void all_reduce(const Tensor& inout, ReduceOp op, const Site& site);
  void reduce_scatter(const Tensor& input, const Tensor& output, ReduceOp op, const Site& site);
  void all_gather(const Tensor& input, const Tensor& output, const Site& site);
  void broadcast(const Tensor& inout, int root, const Site& site);
  void reduce(const Tensor& inout, ReduceOp op, int root, const Site& site);
  void gather(const Tensor& input, const Tensor& output_at_root, int root, const Site& site);
  void scatter(const Tensor& input_at_root, const Tensor& output, int root, const Site& site);
  void all_to_all(const Tensor& input, const Tensor& output, const Site& site);
  void all_to_all_uneven(const Tensor& input, std::vector<std::int64_t> send_rows, const Tensor& output,
                         std::vector<std::int64_t> receive_rows, const Site& site);
  void send(const Tensor& tensor, int peer, const Site& site);
  void recv(const Tensor& tensor, int peer, const Site& site);
  /// Runs several sends and receives, each of which progresses independently of the others.
  void batch(std::span<const PointToPoint> calls, const Site& site);
  void barrier(const Site& site);

  [[nodiscard]] Work start_all_reduce(const Tensor& inout, Reduction reduction, const Site& site);
  [[nodiscard]] Work start_reduce_scatter(const Tensor& input, const Tensor& output, Reduction reduction,
                                          const Site& site);
  [[nodiscard]] Work start_all_gather(const Tensor& input, const Tensor& output, const Site& site);
  [[nodiscard]] Work start_broadcast(const Tensor& inout, int root, const Site& site);
  [[nodiscard]] Work start_reduce(const Tensor& inout, ReduceOp op, int root, const Site& site);
  [[nodiscard]] Work start_gather(const Tensor& input, const Tensor& output_at_root, int root,
                                  const Site& site);
  [[nodiscard]] Work start_scatter(const Tensor& input_at_root, const Tensor& output, int root,
                                   const Site& site);
  [[nodiscard]] Work start_all_to_all(const Tensor& input, const Tensor& output, const Site& site);
  [[nodiscard]] Work start_all_to_all_uneven(const Tensor& input, std::vector<std::int64_t> send_rows,
                                             const Tensor& output, std::vector<std::int64_t> receive_rows,
                                             const Site& site);
  [[nodiscard]] Work start_send(const Tensor& tensor, int peer, const Site& site);
  [[nodiscard]] Work start_recv(const Tensor& tensor, int peer, const Site& site);
  /// `continues`: the messages are of the batch of the call before them.
  [[nodiscard]] Work start_batch(std::span<const PointToPoint> calls, const Site& site,
                                 bool continues = false);
  [[nodiscard]] Work start_barrier(const Site& site);

  /// Makes a new group of the members that pass the same color, ordered by key and then by place. Returns
  /// null if this member's color is negative.
  std::unique_ptr<Communicator> split(int color, int key, const Site& site);

 protected:
  /// Describes a call for messages: "tp[3] = {12, 13}, rank 12, all_reduce 'mlp.forward' (mlp.cpp:40)".
  std::string describe(const Call& call) const;
  Recorder& recorder() { return *recorder_; }
  /// Checks a call, numbers it and records it. Returns the number of the record.
  std::size_t record_call(Call& call);

 private:
  /// Starts a call that has been checked and recorded, in a group of at least two members. It gets every
  /// operation except split and new_group.
  virtual std::unique_ptr<Pending> do_call(Call&& call) = 0;
  /// Makes a call that blocks, and returns when it is done. A backend overrides it where such a call needs no
  /// memory beyond that of its caller.
  virtual void do_blocking_call(Call& call);
  /// Whether do_call() multiplies inputs by their factor while it reduces them. Otherwise they are multiplied
  /// in place before it, and the call that it gets has no factor, so that other members' are not compared.
  virtual bool scales_inputs() const { return false; }
  virtual std::unique_ptr<Communicator> do_split(Call&& call) = 0;

  void run(Operation operation, Call&& call);
  Work start(Call&& call);
  void start_into(Work& work, Call&& call);
  void require_factor(const Call& call) const;
  void scale_input(Call& call) const;
  void check_call(Operation operation, Call& call);
  void require_places(Operation operation, const Call& call) const;
  void require_tensors(Operation operation, Call& call) const;
  bool is_usable(const Tensor& tensor) const;
  void require_tensor(const Call& call, const Tensor& tensor, Access access) const;
  void require_usable_tensor(const Call& call, const Tensor& tensor, Access access) const;
  bool is_own_block(const Call& call) const;
  void require_counts(Operation operation, Call& call) const;
  void require_uneven(const Call& call) const;
  [[noreturn]] static void refuse_caller(const Call& call);
  [[noreturn]] void refuse_places(const Call& call) const;
  [[noreturn]] void refuse_dtypes(const Call& call) const;
  [[noreturn]] void refuse_overlap(const Call& call) const;
  [[noreturn]] void refuse_blocks(const Call& call) const;
  [[noreturn]] void refuse_call(const Call& call, const char* code, std::string numbers, const char* rule,
                                const char* hint) const;
  void copy_as_identity(const Call& call) const;
  std::int64_t next_sequence(Operation operation, const Call& call);

  const ProcessGroup& group_;
  int place_;
  Device& device_;
  std::shared_ptr<Recorder> recorder_;
  CallTensors of_blocking_calls_;
  std::int64_t collectives_ = 0;                 // collectives called so far
  std::map<int, std::int64_t> sent_, received_;  // number of messages so far, by the peer's place
};

}  // namespace sim
