#include "sim/shapes/shapes_device.h"

#include <algorithm>
#include <vector>

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

void ShapesDevice::add_elements(std::int64_t count) {
  if (running_device() == this) account_->elements += count;
}

Tensor ShapesDevice::empty(DType dtype, const Shape& shape) {
  auto counted =
      std::make_shared<CountedStorage>(shape.count() * size_of(dtype), weak_from_this().lock(), account_);
  Storage* storage = &counted->storage;
  return {*this, dtype, shape, std::shared_ptr<Storage>(std::move(counted), storage)};
}

/// Computes outputs that are whole numbers from inputs that are known, and makes them unknown if an input is
/// not. Outputs of other dtypes have no elements, and nothing is computed.
template <typename Compute>
void ShapesDevice::on_numbers(std::initializer_list<const Tensor*> inputs, std::span<Tensor> outputs,
                              const Compute& compute) {
  if (outputs.empty() || !has_elements(outputs.front().dtype())) return;
  const bool are_known = std::all_of(inputs.begin(), inputs.end(),
                                     [](const Tensor* input) { return input->storage().has_memory(); });
  for (Tensor& output : outputs) {
    if (!are_known) output.storage().drop_memory();
    if (are_known && !output.storage().has_memory()) output.storage().take_memory(pool_, lane_);
  }
  if (are_known) compute();
}

// ---- copies -----------------------------------------------------------------------------------------------

void ShapesDevice::from_host(std::span<const std::byte> values, Tensor& to) {
  on_numbers({}, to, [&] { numbers_->from_host(values, to); });
}

void ShapesDevice::to_host(const Tensor& from, std::span<std::byte> values) {
  if (from.count() == 0) return;
  if (!from.storage().has_memory()) refuse_no_elements("to_host", from.bytes());
  numbers_->to_host(from, values);
}

void ShapesDevice::fill(Tensor& out, double value) {
  add_elements(out);
  on_numbers({}, out, [&] { numbers_->fill(out, value); });
}

void ShapesDevice::poison(Tensor& out) {
  on_numbers({}, out, [&] { numbers_->poison(out); });
}

void ShapesDevice::copy(const Tensor& from, Tensor& to) {
  add_elements(to);
  on_numbers({&from}, to, [&] { numbers_->copy(from, to); });
}

void ShapesDevice::copy_columns(const Tensor& from, std::int64_t from_column, Tensor& to,
                                std::int64_t to_column, std::int64_t columns) {
  const std::size_t dimensions = from.shape().dimensions();
  const std::int64_t width = dimensions == 0 ? 1 : from.shape()[dimensions - 1];
  add_elements(width == 0 ? 0 : from.count() / width * columns);
  on_numbers({&from}, to, [&] { numbers_->copy_columns(from, from_column, to, to_column, columns); });
}

void ShapesDevice::permute(const Tensor& from, std::array<int, 4> order, Tensor& to) {
  add_elements(to);
  on_numbers({&from}, to, [&] { numbers_->permute(from, order, to); });
}

// ---- element by element -----------------------------------------------------------------------------------

void ShapesDevice::combine(ReduceOp op, const Tensor& a, const Tensor& b, Tensor& out) {
  add_elements(out);
  on_numbers({&a, &b}, out, [&] { numbers_->combine(op, a, b, out); });
}

void ShapesDevice::scale(const Tensor& a, Ratio ratio, Tensor& out) {
  add_elements(out);
  on_numbers({&a}, out, [&] { numbers_->scale(a, ratio, out); });
}

void ShapesDevice::compare(Comparison comparison, const Tensor& a, const Tensor& b, Tensor& mask) {
  add_elements(mask);
  on_numbers({&a, &b}, mask, [&] { numbers_->compare(comparison, a, b, mask); });
}

void ShapesDevice::select(const Tensor& mask, const Tensor& a, const Tensor& b, Tensor& out) {
  add_elements(out);
  on_numbers({&mask, &a, &b}, out, [&] { numbers_->select(mask, a, b, out); });
}

void ShapesDevice::cast(const Tensor& from, Tensor& to) {
  add_elements(to);
  on_numbers({&from}, to, [&] { numbers_->cast(from, to); });
}

void ShapesDevice::fold(Reduction reduction, TensorList inputs, std::span<const FoldSegment> segments,
                        TensorList outputs) {
  for (const Tensor* input : inputs) add_elements(*input);
  const bool are_known = std::all_of(inputs.begin(), inputs.end(),
                                     [](const Tensor* input) { return input->storage().has_memory(); });
  std::vector<Tensor> written;
  for (const Tensor* output : outputs) written.push_back(*output);
  if (are_known) {
    on_numbers({}, written, [&] { numbers_->fold(reduction, inputs, segments, outputs); });
  } else {
    on_numbers({inputs.front()}, written, [] {});
  }
}

void ShapesDevice::dropout(const Tensor& x, const KeyedRandom&, Ratio, Tensor&) { add_elements(x); }
void ShapesDevice::activate(Activation, const Tensor& x, Tensor&) { add_elements(x); }
void ShapesDevice::activate_backward(Activation, const Tensor& x, const Tensor&, Tensor&) { add_elements(x); }
void ShapesDevice::apply(const ElementFunction&, const Tensor& x, Tensor&) { add_elements(x); }
void ShapesDevice::apply_backward(const ElementFunction&, const Tensor& x, const Tensor&, Tensor&) {
  add_elements(x);
}
void ShapesDevice::rotate(const Tensor& x, const Tensor&, const Tensor&, bool, Tensor&) { add_elements(x); }

// ---- products and rows ------------------------------------------------------------------------------------

void ShapesDevice::matmul(const Tensor& a, bool a_transposed, const Tensor&, bool, Tensor& out, bool) {
  if (running_device() != this) return;
  if (RowWork::is_running()) return add_elements(std::max(a.count(), out.count()));
  const std::size_t columns = a.shape().dimensions() - 1;
  account_->multiply_adds += out.count() * a.shape()[a_transposed ? columns - 1 : columns];
}

void ShapesDevice::add_bias(const Tensor& x, const Tensor&, Tensor&) { add_elements(x); }
void ShapesDevice::add_column_sums(const Tensor& x, Tensor&) { add_elements(x); }
void ShapesDevice::lookup(const Tensor&, const Tensor&, std::int64_t, Tensor& out) { add_elements(out); }
void ShapesDevice::add_to_rows(const Tensor& rows, const Tensor&, std::int64_t, Tensor&) {
  add_elements(rows);
}
void ShapesDevice::softmax(const Tensor& x, std::int64_t, SeenKeys, Tensor&) { add_elements(x); }
void ShapesDevice::softmax_backward(const Tensor& p, const Tensor&, std::int64_t, Tensor&) {
  add_elements(p);
}
void ShapesDevice::partial_softmax(const Tensor& x, std::int64_t, SeenKeys, Tensor&, Tensor&) {
  add_elements(x);
}
void ShapesDevice::finish_softmax(const Tensor& sums, const Tensor&, Tensor&) { add_elements(sums); }
void ShapesDevice::merge_softmax(const Tensor& part, const Tensor&, Tensor&, Tensor&) { add_elements(part); }
void ShapesDevice::partial_softmax_backward(const Tensor& x, std::int64_t, SeenKeys, const Tensor&,
                                            const Tensor&, const Tensor&, Tensor&, Tensor&) {
  add_elements(x);
}
void ShapesDevice::normalize(Norm, const Tensor& x, const Tensor&, const Tensor&, Ratio, Tensor&, Tensor&) {
  add_elements(x);
}
void ShapesDevice::normalize_backward(Norm, const Tensor& x, const Tensor&, const Tensor&, const Tensor&,
                                      Tensor&, Tensor&, Tensor&) {
  add_elements(x);
}

// ---- the optimizer and the loss ---------------------------------------------------------------------------

void ShapesDevice::adam(const Tensor&, const AdamStep&, Tensor& param, Tensor&, Tensor&) {
  add_elements(param);
}
void ShapesDevice::clip_factor(const Tensor&, Ratio, Tensor& factor) { add_elements(factor); }
void ShapesDevice::scale_by(Tensor& x, const Tensor&) { add_elements(x); }
void ShapesDevice::find_nonfinite(const Tensor& x, Tensor&) { add_elements(x); }
void ShapesDevice::row_max(const Tensor& logits, std::int64_t, Tensor&) { add_elements(logits); }
void ShapesDevice::argmax(const Tensor& x, Tensor& columns) {
  add_elements(x);
  columns.storage().drop_memory();
}
void ShapesDevice::token_parts(const Tensor& logits, const Tensor&, const Tensor&, const TokenLoss&, Tensor&,
                               Tensor&) {
  add_elements(logits);
}
void ShapesDevice::token_loss(const Tensor& parts, const Tensor&, const TokenLoss&, Tensor&) {
  add_elements(parts);
}
void ShapesDevice::token_loss_backward(const Tensor& exps, const Tensor&, const Tensor&, const TokenLoss&,
                                       const Tensor&, Tensor&) {
  add_elements(exps);
}

}  // namespace sim
