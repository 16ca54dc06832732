#pragma once

/// A parameter of a layer, or this rank's shard of one, with the gradient that backward adds to and the
/// attributes that say who reduces it.
///
/// Shapes  whole: of the unsharded parameter. value and main_grad: the shard; dimension partition_dim is
///         whole / tp. With a partition_stride s, that dimension of the shard is s blocks, and block b is
///         block b tp + r of the whole: two matrices side by side ([gate; up] of a gated MLP) are each cut
///         into tp parts.
/// Exact   an initial value is a function of (seed, name, index in the whole): a shard is the slice of the
///         whole, on any layout. main_grad is f32 where the parameter is bf16.
/// Errors  partition, when the dimension does not divide by tp and stride.
/// Source  Megatron-LM, tensor_parallel/layers.py: set_tensor_model_parallel_attributes,
///         _initialize_affine_weight_cpu.

#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

#include "sim/comm/rank.h"
#include "sim/tensor/tensor.h"

namespace sim {

struct ParameterAttributes {
  bool tensor_model_parallel = false;  // sharded; its gradient is complete on each rank
  int partition_dim = -1;
  int partition_stride = 1;
  bool sequence_parallel =
      false;  // replicated, and each rank has the gradient of its tokens: to be summed over tp
  bool shared_embedding = false;  // tied to one of another stage
  bool shared = false;            // of two that are tied, the copy: counted with the other
  bool allreduce = true;          // false: an expert's
};

struct Parameter {
  std::string name;
  Shape whole;
  ParameterAttributes attributes;
  Tensor value;
  Tensor main_grad;
};

/// Elements are the center and keyed random numbers in [-1, 1) (in the field, any) times the scale.
struct Initial {
  Ratio scale = {1, 1};
  Ratio center = {0, 1};
};

/// The part of a parameter that place r of a group of n holds, as rows and columns of the whole; vectors have
/// one column.
struct Partition {
  int dim = -1;  // -1: all of it
  int stride = 1;
  int place = 0;
  int size = 1;
};

/// The parameters of the parts of a layer, one part after the other.
std::vector<Parameter*> joined(std::initializer_list<std::vector<Parameter*>> parts);

Parameter make_parameter(Rank& rank, std::string name, DType dtype, const Shape& whole,
                         const Partition& partition, const Initial& initial);

}  // namespace sim
