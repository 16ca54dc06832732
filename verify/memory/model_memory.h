#pragma once

/// The memory that each rank of a published model holds in training. Parameters, gradients and optimizer
/// states are counted from the buffers and range maps of the distributed optimizer, without allocating them.
/// Activations follow from the pipeline schedule.
///
/// Shapes  Bytes of a parameter and of a gradient, including the padding of the buffers, and of each element
///         that a rank owns in the optimizer, as derived_options.h says: in bf16 training 2, 4 and 12.
///         Without ZeRO-1 nothing is padded, and a rank owns all. The vocabulary is padded
///         (derived_options.h). An output layer that is tied to the embedding of another stage, and the
///         embedding of the layers that predict further tokens on another stage, are copies, of which a stage
///         may have both. Routed experts are divided over ep and cut over etp; their router is replicated,
///         and shared experts are cut over tp. Where ep or etp make the grid of experts another one, they
///         have buffers of their own, whose owners are the ranks of edp. The down-projections of latent
///         attention are replicated, but cut over tp in layers without Transformer Engine. Layers that
///         predict further tokens are on the last stage; with them, the final norm is on the stage of the
///         last other layer. Workspaces and buffers are those of fixed_memory.h, and activations those of
///         activation_memory.h; the latter are left out where no schedule is given, or where they may exceed
///         2^53 bytes.
/// Exact   Over the ranks that hold different elements, tp, or ep and etp, and over stages, the elements add
///         up to those of the model. Each part of the optimizer's states is that of the rank which owns the
///         most elements of it.
/// Source  Rajbhandari et al. 2020, section 3; Megatron-LM, optimizer/distrib_optimizer.py,
///         core/transformer/multi_token_prediction.py.

#include <optional>
#include <string_view>

#include "sim/layout/layer_placement.h"
#include "sim/layout/layout.h"
#include "sim/optimizer/buffer_layout.h"
#include "sim/pipeline/schedules.h"
#include "verify/checks/check_result.h"
#include "verify/memory/saved_tensors.h"
#include "verify/memory/stage_memory.h"
#include "verify/vocabulary/derived_options.h"

namespace verify {

/// One parameter of a stage, as one of its ranks holds it.
struct HeldParameter {
  std::int64_t elements = 0;
  std::int64_t shards = 1;  // ranks that hold different elements of it, or of other experts
  bool is_shared = false;   // tied to a parameter of another stage
  bool is_copy = false;     // a parameter of another stage is the same one
  bool is_expert = false;   // of a routed expert
  bool is_router_bias = false;
  bool is_head_norm = false;   // of queries or keys: the gradient of a rank is that of its own heads
  std::int64_t inputs = 0;     // of the matrix product whose weight it is, on the rank; 0: it is none
  std::string_view name = {};  // of a matrix; that of norms and other narrow parameters is empty
  bool operator==(const HeldParameter&) const = default;
};

/// The sizes of the grids over which parameters are divided.
struct ShardSizes {
  int tp = 1, ep = 1, etp = 1;
  bool cuts_latents =
      false;  // layers without Transformer Engine cut the down-projections of latent attention
  /// Whether the experts are reduced over other ranks than dense parameters, and have their own buffers.
  bool has_expert_grid() const { return ep > 1 || etp != tp; }
};

struct Stage {
  std::vector<sim::StageLayers> layers;
  bool is_first = false;
  bool is_last = false;
};

/// Returns the parameters that a rank of a stage holds, in the order of the model.
std::vector<HeldParameter> held_parameters(const sim::GptConfig& shape, const Stage& stage,
                                           const ShardSizes& sizes);

/// The parameters of a stage by the buffers that they are in.
struct BufferContents {
  std::vector<HeldParameter> dense, experts;
};
/// Divides the parameters of a stage: experts have buffers of their own where their grid is another one.
BufferContents contents_of_buffers(std::vector<HeldParameter> held, bool experts_are_apart);

/// Returns the buffer of parameters whose gradients are reduced over this many ranks.
sim::BufferLayout buffer_of(const std::vector<HeldParameter>& parameters, int owners, bool is_distributed);

/// The bytes of one buffer.
struct HeldBytes {
  std::int64_t parameters = 0;
  std::int64_t gradients = 0;
  std::int64_t optimizer = 0;  // of each part on the rank that owns the most elements
  std::int64_t owned = 0;      // elements that this rank owns
};
/// Returns the bytes of one buffer.
HeldBytes held_bytes(const std::vector<HeldParameter>& parameters, int owners, const StateBytes& state = {});

struct MemoryReport {
  CheckResult row;        // "memory", about the stage that holds the most
  int owners = 1;         // ranks that share the optimizer states of a stage
  int expert_owners = 0;  // those that share the states of experts; 0: no buffers of experts
  StateBytes state = {};
  bool has_activations = false;                 // whether activations are counted, too
  std::vector<StageMemory> stages;              // what a rank of each pipeline stage holds
  std::optional<std::int64_t> gpu_memory = {};  // what a rank may hold; absent: it is not judged

  /// The stage that holds most, the first one of several.
  std::size_t fullest() const;
  /// Whether every stage fits; nothing where it is not judged, or where activations are not counted and all
  /// else fits.
  std::optional<bool> fits() const;
  /// Whether it is not judged, or every stage is known to fit.
  bool fits_as_asked() const;
};

/// The inputs that activations depend on, apart from the model and the placement of its layers.
struct ActivationRun {
  std::int64_t micro_batch_size = 1;
  bool sequence_parallel = false;
  sim::ScheduleFunction schedule = nullptr;  // null: activations are not counted
  sim::PipelineShape pipeline;
};

/// Returns what the activations of a microbatch on a rank depend on.
ActivationShape activation_shape(const sim::GptConfig& shape, const sim::Layout& layout,
                                 const ActivationRun& run, const StateBytes& state,
                                 const MemoryOptions& options);

MemoryReport check_memory(const sim::GptConfig& shape, const sim::Layout& layout,
                          const sim::LayerPlacement& placement, const ActivationRun& run,
                          const StateBytes& state = {}, const MemoryOptions& options = {});

}  // namespace verify
