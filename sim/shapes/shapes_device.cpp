#include "sim/shapes/shapes_device.h"

#include <algorithm>

#include "sim/tensor/row_work.h"
#include "sim/tensor/running_device.h"

namespace sim {

namespace {

/// A storage of shapes, which its account counts while it exists.
struct CountedStorage {
  CountedStorage(std::int64_t bytes, std::shared_ptr<const void> device,
                 const std::shared_ptr<ShapesAccount>& of_rank)
      : storage(bytes, std::move(device)), account(of_rank), use(static_cast<std::size_t>(MadeFor::now())) {
    account->held_bytes += bytes;
    account->peak_bytes = std::max(account->peak_bytes, account->held_bytes);
    account->held_for[use] += bytes;
    account->peak_for[use] = std::max(account->peak_for[use], account->held_for[use]);
  }
  ~CountedStorage() {
    account->held_bytes -= storage.bytes();
    account->held_for[use] -= storage.bytes();
  }
  CountedStorage(const CountedStorage&) = delete;
  CountedStorage& operator=(const CountedStorage&) = delete;

  Storage storage;
  std::shared_ptr<ShapesAccount> account;
  std::size_t use;
};

}  // namespace

ShapesDevice::ShapesDevice()
    : pool_(std::make_shared<MemoryPool>()),
      numbers_(std::make_shared<CpuDevice>()),
      account_(std::make_shared<ShapesAccount>()) {}

ShapesDevice::ShapesDevice(const ShapesDevice& whole, int rank)
    : Device(whole),
      std::enable_shared_from_this<ShapesDevice>(),
      pool_(whole.pool_),
      lane_(static_cast<std::size_t>(rank) % MemoryPool::kLanes),
      numbers_(whole.numbers_),
      account_(std::make_shared<ShapesAccount>()) {}

std::shared_ptr<Device> ShapesDevice::for_rank(int rank) {
  std::shared_ptr<ShapesDevice> handle(new ShapesDevice(*this, rank));
  accounts_[rank] = handle->account_;
  return handle;
}

void ShapesDevice::count(const KernelCall& call) {
  if (running_device() != this) return;
  if (call.kernel != Kernel::matmul) {
    account_->elements += work_of(call);
  } else if (RowWork::is_running()) {
    account_->elements += std::max(call.inputs.front()->count(), call.outputs.front()->count());
  } else {
    account_->multiply_adds += work_of(call);
  }
}

Tensor ShapesDevice::empty(DType dtype, const Shape& shape) {
  auto counted =
      std::make_shared<CountedStorage>(shape.count() * size_of(dtype), weak_from_this().lock(), account_);
  Storage* storage = &counted->storage;
  return {*this, dtype, shape, std::shared_ptr<Storage>(std::move(counted), storage)};
}

void ShapesDevice::from_host(std::span<const std::byte> values, Tensor& to) {
  if (!has_elements(to.dtype())) return;
  if (!to.storage().has_memory()) to.storage().take_memory(pool_, lane_);
  numbers_->from_host(values, to);
}

void ShapesDevice::to_host(const Tensor& from, std::span<std::byte> values) {
  if (from.count() == 0) return;
  if (!from.storage().has_memory()) refuse_no_elements("to_host", from.bytes());
  numbers_->to_host(from, values);
}

/// Computes outputs that are whole numbers from inputs that are known, and makes them unknown if an input is
/// not. Outputs of other dtypes have no elements, and nothing is computed.
void ShapesDevice::run(const KernelCall& call) {
  count(call);
  if (call.outputs.empty() || !has_elements(call.outputs.front()->dtype())) return;
  const bool are_known =
      std::ranges::all_of(call.inputs, [](const Tensor* input) { return input->storage().has_memory(); });
  for (const Tensor* output : call.outputs) {
    Storage& storage = output->storage();
    if (!are_known) storage.drop_memory();
    if (are_known && !storage.has_memory()) storage.take_memory(pool_, lane_);
  }
  if (are_known) numbers_->run(call);
}

}  // namespace sim
