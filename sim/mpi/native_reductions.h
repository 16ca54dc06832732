#pragma once

/// MPI's own reductions, as a process asks for them: the one door to them.
///
///   std::unique_ptr<NativeReductions> native = open_mpi_reductions();
///   NativeGroup& group = native->open_group({4, 0, 7});
///   const std::unique_ptr<NativeRequest> request = group.start({Operation::all_reduce, DType::f32,
///   ReduceOp::sum, -1, 3, bytes}); while (!request->is_done()) ...
///
/// Shapes  a group's places are those of its members. A reduction gives `count` elements (reduce_scatter:
///         count for each member) and gets `count`, or nothing where it is a reduce of another place. Bytes
///         are elements as they lie in memory.
/// Calls   open_group() waits for all members, and nobody else: they have to be inside it already, or come
///         without another wait. All members of groups make them, and start the reductions of one group, in
///         the same order; which group comes when, and which request is asked for first, is free. Bytes of a
///         request that is left alone are kept. close_groups(): by all, when nothing is under way. By one
///         thread.
/// Errors  mpi_failed: MPI says that it could not. backend_unavailable: this program was built without MPI.
///         Members agree on a reduction before they start it: MPI does not see that they do not, and may end
///         the process.
/// Exact   max, min and everything of i32 whatever MPI does, but for max and min of NaN or of zeros of both
///         signs. The order of MPI's sums and products is its own: the bits of another order only where each
///         partial result is representable. An average is MPI's sum: who asked scales it.
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

/// Who reduces: this program, in the world's stated order, or MPI, where it has the dtype.
enum class MpiReductions { folded, native };

struct NativeReduction {
  Operation operation;  // all_reduce, reduce_scatter or reduce
  DType dtype;
  ReduceOp reduce_op;
  int root;  // place, of a reduce
  std::int64_t count;
  Bytes given;
};

class NativeRequest {
 public:
  virtual ~NativeRequest() = default;
  /// Asks MPI, which goes on meanwhile with all that is under way.
  virtual bool is_done() = 0;
  /// Of one that is done.
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
  /// Two or more ranks of the world, this one among them.
  virtual NativeGroup& open_group(const std::vector<int>& members) = 0;
  virtual void close_groups() = 0;
  /// Reductions that MPI was asked for on this process so far.
  virtual std::int64_t started() const = 0;
};

using OpenNativeReductions = std::function<std::unique_ptr<NativeReductions>()>;

/// By all processes at once, after MPI was started (mpi_wire.h).
std::unique_ptr<NativeReductions> open_mpi_reductions();

/// Has MPI this reduction? Not of bf16 and of the field, which are no types of MPI, nor of more elements than
/// its counts of 31 bits have; and for none it need not be asked. The same on all members of a call that
/// agrees.
constexpr bool has_native_reduction(Operation operation, DType dtype, std::int64_t count, int members) {
  const bool has_type = dtype == DType::f64 || dtype == DType::f32 || dtype == DType::i32;
  const std::int64_t given_of_each = operation == Operation::reduce_scatter ? members : 1;
  return has_reduce_op(operation) && has_type && count > 0 && members > 1 &&
         count <= std::numeric_limits<std::int32_t>::max() / given_of_each;
}

}  // namespace sim
