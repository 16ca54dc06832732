#pragma once

/// Data parallelism. The gradients of a bucket are reduced over the ranks that hold the same parameters, as
/// soon as the last gradient of the bucket is complete, while backward continues.
///
/// Shapes  for each chunk of the model one buffer for each dtype of parameters, and separate buffers
///         for dense and expert parameters; a bucket of B elements; with the distributed optimizer each of D
///         ranks keeps B/D elements of the sum, at their place in the buffer. The bucket size counts in the
///         first chunk; buffers of later chunks have one bucket, and one for a shared embedding.
/// Calls   for each bucket one all_reduce of B, or with the distributed optimizer one reduce_scatter of B/D:
///         over dp-cp, for experts over edp. With several optimizer instances, over the ranks of one instance
///         (intra-dp-cp, intra-edp), followed by an all_reduce of B/D over inter-edp. Microbatches before the
///         last one communicate nothing.
/// Errors  grad_ready_twice: a parameter that is ready already, or is not in the buffers; buffer_dtypes:
///         gradients of several dtypes, which have no common norm; optimizer_instances: a rank order in which
///         the ranks of inter-edp own different elements; gradient_scaling; those of the buffers.
/// Exact   After a reduce_scatter, the gradients that a rank does not own are poisoned (tensor/adam.h), so
///         that nobody can use them unnoticed.
/// Source  Megatron-LM, DistributedDataParallel; Rajbhandari et al. 2020 (ZeRO).

#include <deque>
#include <optional>

#include "sim/optimizer/grad_buffer.h"
#include "sim/optimizer/gradient_scaling.h"

namespace sim {

struct DataParallelConfig {
  std::optional<std::int64_t> bucket_size;  // of the first chunk
  bool distributed_optimizer = true;
  bool overlap_grad_reduce = true;
  bool pad_for_high_nccl_busbw = false;
  bool average_in_collective = false;
  bool per_token_loss = false;
};

class DistributedDataParallel {
 public:
  /// Takes the parameters of each chunk of the model on this rank.
  DistributedDataParallel(Rank& rank, const std::vector<std::vector<Parameter*>>& chunks,
                          const DataParallelConfig& config);

  /// Sets all gradients to zero. Call it before the first microbatch of a step.
  void zero_grads();
  /// Says that the gradient of a parameter is complete on this rank. Call it once for each parameter, in
  /// the last microbatch of a step.
  void grad_ready(const Parameter& parameter);
  /// Starts the reductions that have not started yet, and waits for all of them.
  void finish_grad_sync();
  /// Divides gradients by the number of tokens of the whole batch. Call it after finish_grad_sync(), with a
  /// per-token loss only.
  void divide_grads(std::int64_t tokens);

  /// A gradient buffer and the groups that reduce it. They come chunk by chunk. In a chunk, buffers of dense
  /// parameters come first, then those of experts; within both, dtypes come in the order in which the chunk
  /// first uses them.
  struct Part {
    GradBuffer buffer;
    Communicator* replicas;  // dp-cp or edp: the ranks with the same parameters
    Communicator* group;     // those of them that divide the buffer's elements among themselves
    /// The ranks of all optimizer instances that own the same elements; null if there is only one instance.
    Communicator* across;
    GradientScaling scaling;
  };
  std::deque<Part>& parts() { return parts_; }
  const std::deque<Part>& parts() const { return parts_; }
  /// The place of a parameter: the number of its part, and the bucket in that part.
  struct Place {
    std::size_t part = 0;
    int bucket = 0;
    bool operator==(const Place&) const = default;
  };
  /// Returns the place of a parameter, or nothing if it is in no buffer.
  std::optional<Place> place_of(const Parameter& parameter) const;
  /// Returns the dtype of the gradients of all buffers, which is the same because they are added into one
  /// norm.
  DType grad_dtype() const { return grad_dtype_; }
  bool is_distributed() const { return config_.distributed_optimizer; }
  /// Returns the range of a bucket whose reduced gradients this rank keeps: its part with the distributed
  /// optimizer, otherwise the whole bucket.
  ElementRange owned(const Part& part, int bucket) const;
  /// Returns the pieces of parameters in the range that owned() returns.
  std::vector<OwnedPiece> pieces(const Part& part, int bucket) const;

 private:
  void add_chunk(Rank& rank, const std::vector<Parameter*>& parameters,
                 std::optional<std::int64_t> bucket_size);
  void add_part(Rank& rank, std::vector<Parameter*> parameters, bool is_expert,
                std::optional<std::int64_t> bucket_size);
  struct BucketState {
    std::size_t ready = 0;
    bool started = false;
    Work work;
  };
  void start(std::size_t part, int bucket);
  /// Sums the owned part of each bucket over the optimizer instances, after its reduce_scatter.
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
