// This is the only file that includes NCCL's header. NCCL is loaded when the first Library is made.

#include "gpu/nccl/nccl_library.h"

#include <atomic>
#include <cstring>
#include <cuda_runtime_api.h>
#include <deque>
#include <nccl.h>
#include <set>
#include <utility>

#include "gpu/cuda/check.h"
#include "gpu/device/gpu_device.h"
#include "gpu/device/refusals.h"
#include "gpu/device/runtime.h"
#include "gpu/device/shared_library.h"
#include "sim/base/check.h"
#include "sim/base/error.h"

namespace gpu {

namespace {

/// The functions of NCCL that are used.
struct NcclFunctions {
  SharedLibrary library{"libnccl.so.2", SHARDPROOF_NCCL_PATH, refuse_no_nccl};
#define NCCL_FUNCTION(name) decltype(::name)* const name = library.find<decltype(::name)>(#name)
  NCCL_FUNCTION(ncclAllGather);
  NCCL_FUNCTION(ncclAllReduce);
  NCCL_FUNCTION(ncclBroadcast);
  NCCL_FUNCTION(ncclCommAbort);
  NCCL_FUNCTION(ncclCommDestroy);
  NCCL_FUNCTION(ncclCommFinalize);
  NCCL_FUNCTION(ncclCommGetAsyncError);
  NCCL_FUNCTION(ncclCommInitRankConfig);
  NCCL_FUNCTION(ncclCommSplit);
  NCCL_FUNCTION(ncclGetErrorString);
  NCCL_FUNCTION(ncclGetLastError);
  NCCL_FUNCTION(ncclGetUniqueId);
  NCCL_FUNCTION(ncclGetVersion);
  NCCL_FUNCTION(ncclGroupEnd);
  NCCL_FUNCTION(ncclGroupStart);
  NCCL_FUNCTION(ncclRecv);
  NCCL_FUNCTION(ncclReduce);
  NCCL_FUNCTION(ncclReduceScatter);
  NCCL_FUNCTION(ncclSend);
#undef NCCL_FUNCTION
};

const NcclFunctions& nccl() {
  static const NcclFunctions functions;
  return functions;
}

cudaStream_t native(Stream* stream) { return reinterpret_cast<cudaStream_t>(stream); }

/// Returns the description of a result, with NCCL's last warning, which says more than the result alone.
std::string words_of(ncclResult_t result) {
  const std::string last = nccl().ncclGetLastError(nullptr);
  return std::string(nccl().ncclGetErrorString(result)) + (last.empty() ? "" : ": " + last);
}

void check(ncclResult_t result, const char* call) {
  if (result != ncclSuccess && result != ncclInProgress) refuse_nccl(call, words_of(result));
}

NcclState state_of(ncclComm_t comm) {
  ncclResult_t result = ncclSuccess;
  const ncclResult_t asked = nccl().ncclCommGetAsyncError(comm, &result);
  if (asked != ncclSuccess) result = asked;
  if (result == ncclSuccess) return {};
  if (result == ncclInProgress) return {NcclState::Kind::busy};
  return {NcclState::Kind::failed, words_of(result)};
}

ncclDataType_t type_of(sim::DType dtype) {
  switch (dtype) {
    case sim::DType::f64:
      return ncclFloat64;
    case sim::DType::f32:
      return ncclFloat32;
    case sim::DType::bf16:
      return ncclBfloat16;
    case sim::DType::i32:
      return ncclInt32;
    case sim::DType::i64:
      return ncclInt64;
    case sim::DType::f16:
      return ncclFloat16;
    case sim::DType::i8:
      return ncclInt8;
    case sim::DType::u8:
    case sim::DType::f8e4m3:  // is only moved
    case sim::DType::f8e5m2:
      return ncclUint8;
    case sim::DType::field:
      break;
  }
  SIM_CHECK(false && "refused before");
  return ncclFloat32;
}

ncclRedOp_t reduction_of(sim::ReduceOp op) {
  switch (op) {
    case sim::ReduceOp::sum:
      return ncclSum;
    case sim::ReduceOp::max:
      return ncclMax;
    case sim::ReduceOp::min:
      return ncclMin;
    case sim::ReduceOp::product:
      return ncclProd;
    case sim::ReduceOp::average:
      break;
  }
  SIM_CHECK(false && "an average is a sum (nccl_steps.h)");
  return ncclSum;
}

/// The state that all links of a process share.
struct Process {
  int ordinal = 0;
  Stream* ranks_stream = nullptr;
  std::set<ncclComm_t> comms;
  /// NCCL writes a new communicator here, from its own thread. The spots outlive their links, because a
  /// link may be gone by then.
  std::deque<ncclComm_t> spots;
};

class Event : public NcclEvent {
 public:
  Event(cudaStream_t stream, ncclComm_t comm) : comm_(comm) {
    gpu::check(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming), "cudaEventCreateWithFlags");
    gpu::check(cudaEventRecord(event_, stream), "cudaEventRecord");
  }
  ~Event() override { static_cast<void>(cudaEventDestroy(event_)); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  NcclState state() override {
    const cudaError_t result = cudaEventQuery(event_);
    if (result == cudaSuccess) return {};
    static_cast<void>(cudaGetLastError());  // clears "not ready", so that later calls do not report it
    if (result != cudaErrorNotReady) return {NcclState::Kind::failed, cudaGetErrorString(result)};
    const NcclState of_comm = state_of(comm_);
    return of_comm.kind == NcclState::Kind::failed ? of_comm : NcclState{NcclState::Kind::busy};
  }

 private:
  ncclComm_t comm_;
  cudaEvent_t event_ = nullptr;
};

void ask(const NcclRequest& request, ncclComm_t comm, cudaStream_t stream) {
  const auto count = static_cast<std::size_t>(request.count);
  const ncclDataType_t type = type_of(request.dtype);
  switch (request.operation) {
    case NcclOperation::all_reduce:
      return check(nccl().ncclAllReduce(request.from, request.to, count, type,
                                        reduction_of(request.reduce_op), comm, stream),
                   "ncclAllReduce");
    case NcclOperation::reduce_scatter:
      return check(nccl().ncclReduceScatter(request.from, request.to, count, type,
                                            reduction_of(request.reduce_op), comm, stream),
                   "ncclReduceScatter");
    case NcclOperation::all_gather:
      return check(nccl().ncclAllGather(request.from, request.to, count, type, comm, stream),
                   "ncclAllGather");
    case NcclOperation::broadcast:
      return check(nccl().ncclBroadcast(request.from, request.to, count, type, request.peer, comm, stream),
                   "ncclBroadcast");
    case NcclOperation::reduce:
      return check(nccl().ncclReduce(request.from, request.to, count, type, reduction_of(request.reduce_op),
                                     request.peer, comm, stream),
                   "ncclReduce");
    case NcclOperation::send:
      return check(nccl().ncclSend(request.from, count, type, request.peer, comm, stream), "ncclSend");
    case NcclOperation::recv:
      return check(nccl().ncclRecv(request.to, count, type, request.peer, comm, stream), "ncclRecv");
    case NcclOperation::copy:
      break;
  }
  SIM_CHECK(false && "copies are CUDA's");
}

class Link : public NcclLink {
 public:
  explicit Link(Process& process)
      : process_(process), stream_(make_stream()), spot_(process.spots.emplace_back(nullptr)) {}
  ~Link() override {
    const ncclComm_t made = comm();
    const bool is_there = made != nullptr && process_.comms.erase(made) > 0;
    if (is_there) static_cast<void>(is_closing_ ? nccl().ncclCommDestroy(made) : nccl().ncclCommAbort(made));
    end_stream(stream_);
  }
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;

  /// The place for NCCL to write the communicator to, possibly after its call has returned.
  ncclComm_t* spot() { return &spot_; }
  /// The communicator, or null until NCCL has written it.
  ncclComm_t comm() const { return std::atomic_ref(spot_).load(std::memory_order_acquire); }

  NcclState state() override {
    const ncclComm_t made = comm();
    if (made == nullptr) return {NcclState::Kind::busy};
    process_.comms.insert(made);
    return state_of(made);
  }

  void put(std::span<const NcclRequest> requests) override {
    use_gpu(process_.ordinal);
    order_after(stream_, process_.ranks_stream);
    for (const NcclRequest& request : requests) {
      if (request.operation != NcclOperation::copy) continue;
      copy_on_gpu(stream_, request.from, request.to,
                  static_cast<std::size_t>(request.count * sim::size_of(request.dtype)));
    }
    check(nccl().ncclGroupStart(), "ncclGroupStart");
    for (const NcclRequest& request : requests) {
      if (request.operation != NcclOperation::copy) ask(request, comm(), native(stream_));
    }
    check(nccl().ncclGroupEnd(), "ncclGroupEnd");
  }

  std::unique_ptr<NcclEvent> mark() override {
    use_gpu(process_.ordinal);
    return std::make_unique<Event>(native(stream_), comm());
  }

  std::unique_ptr<NcclLink> split(int color, int key) override {
    use_gpu(process_.ordinal);
    auto part = color < 0 ? nullptr : std::make_unique<Link>(process_);
    ncclComm_t* made = part == nullptr ? &process_.spots.emplace_back(nullptr) : part->spot();
    check(nccl().ncclCommSplit(comm(), color < 0 ? NCCL_SPLIT_NOCOLOR : color, key, made, nullptr),
          "ncclCommSplit");
    return part;
  }

  void begin_close() override {
    is_closing_ = true;
    check(nccl().ncclCommFinalize(comm()), "ncclCommFinalize");
  }

 private:
  Process& process_;
  Stream* stream_;
  ncclComm_t& spot_;
  bool is_closing_ = false;
};

class Library : public NcclLibrary {
 public:
  int version() const override {
    int version = 0;
    check(nccl().ncclGetVersion(&version), "ncclGetVersion");
    return version;
  }

  sim::Bytes unique_id() override {
    ncclUniqueId id;
    check(nccl().ncclGetUniqueId(&id), "ncclGetUniqueId");
    sim::Bytes bytes(sizeof id);
    std::memcpy(bytes.data(), &id, sizeof id);
    return bytes;
  }

  std::shared_ptr<sim::Device> open_device(int local_rank, int rank, GpuMode mode) override {
    int count = 0;  // CUDA does not write it if the call fails
    const cudaError_t error = cudaGetDeviceCount(&count);
    if (error != cudaSuccess || count == 0) {
      refuse_unavailable(0, error == cudaSuccess ? "0 GPUs" : cudaGetErrorString(error),
                         "a machine with an NVIDIA GPU and its driver, or --backend mpi");
    }
    process_.ordinal = local_rank % count;
    const auto device =
        std::make_shared<GpuDevice>(GpuOptions{.ordinal = process_.ordinal, .mode = mode})->for_rank(rank);
    process_.ranks_stream = static_cast<GpuDevice&>(*device).stream();
    return device;
  }

  std::unique_ptr<NcclLink> open(const sim::Bytes& id, int rank, int size) override {
    ncclUniqueId unique_id;
    if (id.size() != sizeof unique_id) refuse_nccl("ncclCommInitRankConfig", "an id of another length");
    std::memcpy(&unique_id, id.data(), sizeof unique_id);
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    config.splitShare = 0;  // otherwise the kernels of all groups of a process run one after the other
    use_gpu(process_.ordinal);
    auto link = std::make_unique<Link>(process_);
    check(nccl().ncclCommInitRankConfig(link->spot(), size, unique_id, rank, &config),
          "ncclCommInitRankConfig");
    return link;
  }

  void abort() override {
    const std::set<ncclComm_t> comms = std::exchange(process_.comms, {});
    for (ncclComm_t comm : comms) static_cast<void>(nccl().ncclCommAbort(comm));
  }

 private:
  Process process_;
};

}  // namespace

std::unique_ptr<NcclLibrary> open_nccl() {
  nccl();  // refuses where NCCL cannot be loaded, before any rank waits for this one
  return std::make_unique<Library>();
}

}  // namespace gpu
