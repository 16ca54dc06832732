#pragma once

/// What a communicator needs of NCCL, and nothing else: the one door to it.
///
///   std::unique_ptr<NcclLibrary> nccl = open_nccl();
///
/// Shapes  an NcclLink is one rank's handle on one communicator of NCCL, with a stream of its own.
/// Calls   none waits for another rank: after open(), split(), put() and begin_close(), state() says whether
///         that is over, and only then may the link be used again. An NcclEvent is over when what was put
///         before it is. By one thread.
/// Errors  backend_unavailable: built without NCCL. nccl_failed: NCCL refused a call. What fails later is a
///         state.
/// Source  the manual of NCCL 2.28: non-blocking communicators, ncclCommGetAsyncError, ncclCommAbort.

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "gpu/device/cuda_device.h"
#include "gpu/nccl/nccl_steps.h"
#include "sim/meeting/frame.h"
#include "sim/tensor/device.h"

namespace gpu {

/// A step with addresses.
struct NcclRequest {
  NcclOperation operation;
  const std::byte* from;  // null: none
  std::byte* to;
  std::int64_t count;
  int peer;
  sim::DType dtype;
  sim::ReduceOp reduce_op;
};

struct NcclState {
  enum class Kind : std::uint8_t { ready, busy, failed };
  Kind kind = Kind::ready;
  std::string words = {};  // of one that failed
};

class NcclEvent {
 public:
  virtual ~NcclEvent() = default;
  virtual NcclState state() = 0;
};

class NcclLink {
 public:
  /// One that was not closed is aborted.
  virtual ~NcclLink() = default;
  virtual NcclState state() = 0;
  /// All of it in one group, after what is on the rank's own stream now.
  virtual void put(std::span<const NcclRequest> requests) = 0;
  /// Of all that was put.
  virtual std::unique_ptr<NcclEvent> mark() = 0;
  /// By all members. Null for a negative color: then, and for the others too, this link's state() says when
  /// it is over.
  virtual std::unique_ptr<NcclLink> split(int color, int key) = 0;
  virtual void begin_close() = 0;
};

class NcclLibrary {
 public:
  virtual ~NcclLibrary() = default;
  virtual int version() const = 0;
  /// Of a world; it has to live as long as ranks come.
  virtual sim::Bytes unique_id() = 0;
  /// The device of this process's rank, on the GPU that is its turn; links follow its stream.
  virtual std::shared_ptr<sim::Device> open_device(int local_rank, int rank, CudaMode mode) = 0;
  virtual std::unique_ptr<NcclLink> open(const sim::Bytes& id, int rank, int size) = 0;
  /// Every link, whatever it does.
  virtual void abort() = 0;
};

using OpenNccl = std::function<std::unique_ptr<NcclLibrary>()>;

/// Refuses where there is no NCCL (gpu/stub).
std::unique_ptr<NcclLibrary> open_nccl();

}  // namespace gpu
