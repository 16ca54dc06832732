#pragma once

/// A parameter of a layer, or this rank's shard of it, with the gradient buffer that backward adds to and the
/// attributes that say which groups reduce that gradient.
///
/// Shapes  whole: the shape of the unsharded parameter. value and main_grad: the shard; its dimension
///         partition_dim is 1/n of the whole one, where n is partition_size: tp, or etp for an expert. With
///         partition_stride s, that dimension of the shard of place r consists of s blocks, and block b is
///         block b n + r of the whole: two matrices in one ([gate; up] of a gated MLP) are each cut into n
///         parts.
/// Exact   An initial value is a function of (seed, name, index in the whole), so on any layout a shard is a
///         slice of the same whole. main_grad is f32 where the parameter is bf16.
/// Errors  partition, when the dimension is not a multiple of tp times stride.
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
  bool tensor_model_parallel = false;  // sharded over tp; each rank computes the whole gradient of its shard
  int partition_dim = -1;
  int partition_stride = 1;
  int partition_place = 0;  // of partition_size parts of the whole
  int partition_size = 1;
  /// The parameter is replicated, but each rank has the gradient of its own tokens only, or of its own heads.
  /// These gradients must be summed over tp.
  bool sequence_parallel = false;
  bool shared_embedding = false;  // tied to the embedding weight of another stage
  bool allreduce = true;          // false for the parameters of an expert
  /// The name of the original, of which this is the tied copy. Norms count the pair once, by the original.
  std::string copy_of = {};
};

struct Parameter {
  std::string name;
  Shape whole;
  ParameterAttributes attributes;
  Tensor value;
  Tensor main_grad;
};

/// The distribution of initial values: center + scale * u, where u is a keyed random number in [-1, 1). In
/// the field, u is any element.
struct Initial {
  Ratio scale = {1, 1};
  Ratio center = {0, 1};
};

/// The part of a parameter that one place of a group holds: a range of rows or of columns of the whole. A
/// vector counts as a matrix with one column.
struct Partition {
  int dim = -1;  // the dimension that is cut: 0 for rows, 1 for columns, -1 for none
  int stride = 1;
  int place = 0;  // in the group
  int size = 1;   // of the group
};

/// Concatenates the parameter lists of the parts of a layer.
std::vector<Parameter*> joined(std::initializer_list<std::vector<Parameter*>> parts);

Parameter make_parameter(Rank& rank, std::string name, DType dtype, const Shape& whole,
                         const Partition& partition, const Initial& initial);

}  // namespace sim
