#pragma once

/// Values that the ranks of a training have written into a folder, such as one on GPUs
/// (verify/python/shardproof/recorded.py):
///
///   values-00003-of-00064.safetensors      what rank 3 of 64 has published
///
/// Shapes  the tensors of a file are flat. Its metadata has for each the request by which a guest would
///         publish it (sim/guest/guest_request.h), as JSON: its name, place, dtype and number of elements.
/// Calls   headers are read at once, and elements when a value is asked for.
/// Errors  value_files: a folder without such files; ranks that have none, or files of worlds of two sizes; a
///         file that is damaged, or whose tensors are not those of its metadata. All are told at once.

#include <string>

#include "sim/tensor/dtype.h"
#include "verify/run/global_values.h"

namespace verify {

struct ValuesOfFolder {
  std::string folder;
  int ranks = 0;
  GlobalValues values;
  sim::DType coarsest = sim::DType::f64;  // of the values
};

/// Returns that of two dtypes which rounds more.
sim::DType coarser(sim::DType some, sim::DType other);
/// Reads a folder, which an option has given, or DIR.
ValuesOfFolder values_of_folder(const std::string& folder, const std::string& option);

}  // namespace verify
