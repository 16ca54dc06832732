#pragma once

/// The interface to MPI's own reductions. It is the only way in which a process uses them.
///
///   std::unique_ptr<NativeReductions> native = open_mpi_reductions();
///   NativeGroup& group = native->open_group({4, 0, 7});
///   const std::unique_ptr<NativeRequest> request =
///       group.start({Operation::all_reduce, DType::f32, ReduceOp::sum, -1, 3, bytes});
///   while (!request->is_done()) ...
///
/// Shapes  the places of a group are the positions of its members in the list. The input of a reduction has
///         `count` elements (reduce_scatter: `count` for each member). The output has `count`, or none on the
///         members of a reduce that are not the root. Bytes are elements as they lie in memory.
/// Calls   open_group() waits for all members and for nobody else. The members must be in the call already,
///         or come without waiting for anything else before. All members make their groups in the same
///         order, and start the reductions of one group in the same order. The order of reductions of
///         different groups, and the order in which requests are tested, are free. The buffers of a request
///         that is abandoned are kept. All processes call close_groups(), when no reduction is in flight.
///         Only one thread makes all these calls.
/// Errors  mpi_failed: MPI reports an error. backend_unavailable: this program was built without MPI. Members
///         must agree on a reduction before they start it: MPI does not detect a disagreement and may end the
///         process.
/// Exact   max, min and all reductions of i32 do not depend on how MPI computes them, except max and min of
///         NaN or of zeros of both signs. MPI chooses the order of sums and products: the bits equal those of
///         another order only if each partial result is representable. An average is computed by MPI as a
///         sum, which the caller scales.
/// Source  MPI 3.1, sections 5.12 (non-blocking collectives), 6.4.2 (MPI_Comm_create_group) and 8.3 (error
///         handlers).

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <vector>

#include "sim/comm/call.h"
#include "sim/meeting/frame.h"

namespace sim {

/// Who computes reductions: this program, in the order that the world states (folded), or MPI, if it
/// supports the dtype (native).
enum class MpiReductions { folded, native };

struct NativeReduction {
  Operation operation;  // all_reduce, reduce_scatter or reduce
  DType dtype;
  ReduceOp reduce_op;
  int root;            // reduce: the place of the root
  std::int64_t count;  // elements of the output
  Bytes given;         // the input
};

class NativeRequest {
 public:
  virtual ~NativeRequest() = default;
  /// Tests whether the reduction is done. The test also lets MPI make progress on everything in flight.
  virtual bool is_done() = 0;
  /// Returns the result of a request that is done.
  virtual const Bytes& result() const = 0;
};

class NativeGroup {
 public:
  virtual ~NativeGroup() = default;
  virtual std::unique_ptr<NativeRequest> start(NativeReduction reduction) = 0;
};

class NativeReductions {
 public:
  virtual ~NativeReductions() = default;
  /// Makes a group of two or more ranks of the world. This rank must be one of them.
  virtual NativeGroup& open_group(const std::vector<int>& members) = 0;
  virtual void close_groups() = 0;
  /// Returns the number of reductions that this process has started in MPI so far.
  virtual std::int64_t started() const = 0;
};

using OpenNativeReductions = std::function<std::unique_ptr<NativeReductions>()>;

/// Opens MPI's reductions. All processes call it at once, after MPI was started (mpi_wire.h).
std::unique_ptr<NativeReductions> open_mpi_reductions();

/// Whether MPI supports this reduction. It does not support bf16 and the field, which are not types of MPI,
/// nor more elements than its counts of 31 bits can express. Reductions of zero elements are not passed to
/// MPI. All members of a call that agrees get the same answer.
constexpr bool has_native_reduction(Operation operation, DType dtype, std::int64_t count, int members) {
  const bool has_type = dtype == DType::f64 || dtype == DType::f32 || dtype == DType::i32;
  const std::int64_t given_of_each = operation == Operation::reduce_scatter ? members : 1;
  return has_reduce_op(operation) && has_type && count > 0 && members > 1 &&
         count <= std::numeric_limits<std::int32_t>::max() / given_of_each;
}

}  // namespace sim
