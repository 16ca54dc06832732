#pragma once

/// Data parallelism: gradients of each bucket are reduced over the ranks that hold the same parameters, as
/// soon as the last of them has arrived, while backward goes on.
///
/// Shapes  one buffer for each dtype of parameters, dense and expert; a bucket of B elements; with the
///         distributed optimizer each of D ranks keeps B/D of the sum, where it lies.
/// Calls   for each bucket one all_reduce of B, or one reduce_scatter of B/D with the distributed optimizer:
///         over dp-cp, of experts over edp. With several optimizer instances these are the ranks of one
///         (intra-dp-cp, intra-edp), and an all_reduce of B/D over inter-edp follows. Microbatches before the
///         last communicate nothing.
/// Errors  grad_ready_twice: a parameter that is ready already, or is not in the buffers; buffer_dtypes:
///         gradients of several dtypes, which have no norm in common; optimizer_instances: an order in which
///         ranks of inter-edp own different elements; gradient_scaling; those of the buffers.
/// Exact   what a rank does not own is poisoned (tensor/adam.h) after a reduce_scatter: nobody may read it.
/// Source  Megatron-LM, DistributedDataParallel; Rajbhandari et al. 2020 (ZeRO).

#include <deque>
#include <optional>

#include "sim/optimizer/grad_buffer.h"
#include "sim/optimizer/gradient_scaling.h"

namespace sim {

struct DataParallelConfig {
  std::optional<std::int64_t> bucket_size;
  bool distributed_optimizer = true;
  bool overlap_grad_reduce = true;
  bool pad_for_high_nccl_busbw = false;
  bool average_in_collective = false;
  bool per_token_loss = false;
};

class DistributedDataParallel {
 public:
  DistributedDataParallel(Rank& rank, const std::vector<Parameter*>& parameters,
                          const DataParallelConfig& config);

  /// Before the first microbatch of a step.
  void zero_grads();
  /// In the last microbatch, when the parameter's gradient is complete on this rank.
  void grad_ready(const Parameter& parameter);
  /// Reduces what has not been yet, and waits for all of it.
  void finish_grad_sync();
  /// With a per-token loss, after the sync: by the tokens of the whole batch.
  void divide_grads(std::int64_t tokens);

  /// Dense ones first; then by dtype, in the order in which the model has them.
  struct Part {
    GradBuffer buffer;
    Communicator* replicas;  // dp-cp or edp: ranks with the same parameters
    Communicator* group;     // of these, the ones that share the buffer's elements
    /// Ranks of other optimizer instances that own the same; null: there is one instance.
    Communicator* across;
    GradientScaling scaling;
  };
  std::deque<Part>& parts() { return parts_; }
  const std::deque<Part>& parts() const { return parts_; }
  /// Where a parameter lies: the number of its part, and the bucket.
  struct Place {
    std::size_t part = 0;
    int bucket = 0;
    bool operator==(const Place&) const = default;
  };
  /// None for a parameter that is in no buffer.
  std::optional<Place> place_of(const Parameter& parameter) const;
  /// Of all buffers: they are added into one norm.
  DType grad_dtype() const { return grad_dtype_; }
  bool is_distributed() const { return config_.distributed_optimizer; }
  /// The ranges of a bucket whose gradients this rank has: its part, or all.
  ElementRange owned(const Part& part, int bucket) const;
  std::vector<OwnedPiece> pieces(const Part& part, int bucket) const;

 private:
  void add_part(Rank& rank, std::vector<Parameter*> parameters, bool is_expert);
  struct BucketState {
    std::size_t ready = 0;
    bool started = false;
    Work work;
  };
  void start(std::size_t part, int bucket);
  /// Of each bucket what this rank owns, when its reduce_scatter is done.
  void sum_across_instances();

  DataParallelConfig config_;
  DType grad_dtype_ = DType::f32;
  std::deque<Part> parts_;
  std::vector<std::vector<BucketState>> states_;  // by part and bucket
  struct Known {
    Place place;
    bool is_ready = false;
  };
  std::map<const Parameter*, Known> known_;
};

}  // namespace sim
