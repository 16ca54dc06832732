#pragma once

/// The interface to NCCL: the operations that a communicator needs, and no others. All use of NCCL goes
/// through it.
///
///   std::unique_ptr<NcclLibrary> nccl = open_nccl();
///
/// Shapes  An NcclLink is one rank's handle on one communicator of NCCL, with its own stream.
/// Calls   No call waits for another rank. After open(), split(), put() and begin_close(), state() says
///         whether the operation is over, and only then may the link be used again. An NcclEvent is over when
///         everything put before it is. All calls come from one thread.
/// Errors  backend_unavailable: built without NCCL. nccl_failed: NCCL refused a call. A later failure is
///         reported as a state.
/// Source  the manual of NCCL 2.28: non-blocking communicators, ncclCommGetAsyncError, ncclCommAbort.

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "gpu/device/gpu_device.h"
#include "gpu/nccl/nccl_steps.h"
#include "sim/base/byte_order.h"
#include "sim/tensor/device.h"

namespace gpu {

/// A step (nccl_steps.h) with addresses.
struct NcclRequest {
  NcclOperation operation;
  const std::byte* from;  // null if the operation reads nothing
  std::byte* to;
  std::int64_t count;
  int peer;
  sim::DType dtype;
  sim::ReduceOp reduce_op;
};

struct NcclState {
  enum class Kind : std::uint8_t { ready, busy, failed };
  Kind kind = Kind::ready;
  std::string words = {};  // if it failed, NCCL's description of the error
};

class NcclEvent {
 public:
  virtual ~NcclEvent() = default;
  virtual NcclState state() = 0;
};

class NcclLink {
 public:
  /// A link that was not closed is aborted.
  virtual ~NcclLink() = default;
  virtual NcclState state() = 0;
  /// Issues all requests in one ncclGroup. They run after the work that is on the rank's own stream now.
  virtual void put(std::span<const NcclRequest> requests) = 0;
  /// Returns an event for everything that was put before.
  virtual std::unique_ptr<NcclEvent> mark() = 0;
  /// Splits the communicator; all members call it. Returns null for a negative color. In either case, the
  /// state() of this link says when the split is over.
  virtual std::unique_ptr<NcclLink> split(int color, int key) = 0;
  virtual void begin_close() = 0;
};

class NcclLibrary {
 public:
  virtual ~NcclLibrary() = default;
  virtual int version() const = 0;
  /// Makes the id of a world. This library must live until all ranks of the world have joined.
  virtual sim::Bytes unique_id() = 0;
  /// Opens the device of this process's rank, on GPU local_rank % GPUs. Links are ordered after its stream.
  virtual std::shared_ptr<sim::Device> open_device(int local_rank, int rank, GpuMode mode) = 0;
  virtual std::unique_ptr<NcclLink> open(const sim::Bytes& id, int rank, int size) = 0;
  /// Aborts every link, whatever it is doing.
  virtual void abort() = 0;
};

using OpenNccl = std::function<std::unique_ptr<NcclLibrary>()>;

/// Opens NCCL. Refuses if the program was built without it (gpu/stub).
std::unique_ptr<NcclLibrary> open_nccl();

}  // namespace gpu
