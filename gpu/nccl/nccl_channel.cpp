#include "gpu/nccl/nccl_channel.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <fmt/format.h>
#include <span>
#include <thread>
#include <utility>

#include "gpu/device/refusals.h"
#include "sim/base/deadline.h"
#include "sim/base/error.h"
#include "sim/comm/reduction_order.h"
#include "sim/cpu/cpu_device.h"
#include "sim/tensor/ops.h"

namespace gpu {

namespace {

using sim::Call;
using sim::DType;
using sim::Operation;
using sim::Tensor;

std::byte* address(const Call& call, const NcclSpot& spot) {
  if (spot.buffer == NcclBuffer::none) return nullptr;
  const Tensor& tensor = spot.buffer == NcclBuffer::input ? call.input : call.output;
  return tensor.data() + spot.offset * sim::size_of(call.dtype);
}

/// Returns the values that a place contributes to the first sums. Every member can compute those of all
/// members. Their magnitudes differ, so that a sum depends on its order.
std::vector<float> values_of(std::int64_t count, int place) {
  constexpr std::uint32_t kDigits = std::uint32_t{1} << 24;
  constexpr std::uint32_t kMagnitudes = 12;
  const sim::KeyedRandom random = sim::KeyedRandom(0).named(fmt::format("ring of place {}", place));
  std::vector<float> values;
  for (std::uint64_t i = 0; std::ssize(values) < count; i += 2) {
    values.push_back(std::ldexp(static_cast<float>(random.below(i, kDigits)),
                                static_cast<int>(random.below(i + 1, kMagnitudes))));
  }
  return values;
}

Tensor tensor_of(sim::Device& device, const std::vector<float>& values) {
  Tensor tensor = device.empty(DType::f32, {std::ssize(values)});
  device.from_host(std::as_bytes(std::span(values)), tensor);
  return tensor;
}

std::vector<std::byte> bytes_of(const Tensor& tensor) {
  std::vector<std::byte> bytes(static_cast<std::size_t>(tensor.bytes()));
  tensor.device().to_host(tensor, bytes);
  return bytes;
}

}  // namespace

void NcclTraffic::send_messages() {
  for (NcclChannel* channel : std::exchange(unsent, {})) channel->send_messages();
}

void NcclTraffic::await(const std::function<NcclState()>& state, const Words& what) const {
  constexpr std::chrono::microseconds kNap{20};
  const sim::Deadline limit = sim::Deadline::after(deadline);
  for (;;) {
    const bool is_late = limit.has_passed();
    const NcclState now = state();
    if (now.kind == NcclState::Kind::ready) return;
    if (now.kind == NcclState::Kind::failed) refuse_nccl(what(), now.words);
    if (is_late) {
      sim::refuse(
          {.code = "nccl_deadline",
           .option = what(),
           .numbers = fmt::format("it is not over after {} ms", deadline.count()),
           .rule = "all members of a group make its calls in the same order, each within the deadline",
           .hint = "look at the rank whose message differs from the others; replay without --backend finds "
                   "most mismatches"});
    }
    std::this_thread::sleep_for(kNap);
  }
}

NcclChannel::NcclChannel(NcclTraffic& traffic, const sim::ProcessGroup& group, int place,
                         std::unique_ptr<NcclLink> link)
    : traffic_(traffic), group_(group), place_(place), link_(std::move(link)) {}

std::string NcclChannel::text(std::string_view what) const {
  return fmt::format("rank {}, {} of {}", group_.rank_at(place_), what, text_of(group_));
}

std::string NcclChannel::text(const Call& call) const {
  return fmt::format("rank {} in call {} of {}, {} {}", group_.rank_at(place_), call.sequence,
                     text_of(group_), name_of(call.operation), text_of(call.site));
}

std::vector<NcclRequest> NcclChannel::requests_of(const Call& call) const {
  std::vector<NcclRequest> requests;
  for (const NcclStep& step : nccl_steps(call, group_.size(), place_)) {
    requests.push_back({step.operation, address(call, step.from), address(call, step.to), step.count,
                        step.peer, call.dtype, nccl_reduction(call.reduce_op)});
  }
  return requests;
}

void NcclChannel::await_link(const Words& what) const {
  traffic_.await([&] { return link_->state(); }, what);
}

/// Issues requests and marks the link. It waits before, so that a link that has failed since its last call
/// is reported here with its group and call, which an error of NCCL would not name. It waits after, because
/// a link may be used and marked only when NCCL has taken the requests.
void NcclChannel::go(NcclFlight& flight, const std::vector<NcclRequest>& requests, const Words& what) {
  await_link(what);
  link_->put(requests);
  await_link(what);
  flight.event = link_->mark();
}

std::shared_ptr<NcclFlight> NcclChannel::put(const Call& call) {
  // A message is named later, when it is issued, so its name needs a copy of the call.
  if (sim::is_point_to_point(call.operation)) return put(call, [this, call] { return text(call); });
  return put(call, [&] { return text(call); });
}

std::shared_ptr<NcclFlight> NcclChannel::put(Call call, const Words& what) {
  if (call.dtype == DType::field && sim::moves_data(call.operation)) {
    sim::refuse(
        {.code = "nccl_dtype",
         .option = fmt::format("{} {} in {}", name_of(call.operation), text_of(call.site), text_of(group_)),
         .numbers = "the tensor is of the field",
         .rule = "NCCL moves f64, f32, bf16 and i32",
         .hint = "the field runs on virtual ranks and over MPI"});
  }
  if (call.operation == Operation::barrier) {
    call.input = call.output = token_;
    call.dtype = DType::i32;
    call.reduce_op = sim::ReduceOp::max;
  }
  std::vector<NcclRequest> requests = requests_of(call);
  if (requests.empty()) return nullptr;
  if (!sim::is_point_to_point(call.operation)) {
    if (!unsent_.empty())
      traffic_.send_messages();  // NCCL runs the calls of one communicator in the order of issue
    auto flight = std::make_shared<NcclFlight>();
    go(*flight, requests, what);
    return flight;
  }
  if (unsent_.empty()) {
    traffic_.unsent.push_back(this);
    next_ = std::make_shared<NcclFlight>();
    words_of_unsent_ = what;
  }
  unsent_.insert(unsent_.end(), requests.begin(), requests.end());
  return next_;
}

void NcclChannel::send_messages() {
  const std::vector<NcclRequest> requests = std::exchange(unsent_, {});
  go(*std::exchange(next_, nullptr), requests, std::exchange(words_of_unsent_, nullptr));
}

void NcclChannel::wait_for(const NcclFlight& flight, const Words& what) {
  traffic_.send_messages();
  traffic_.await([&] { return flight.event->state(); }, what);
}

void NcclChannel::run(const Call& call, const Words& what) {
  const std::shared_ptr<NcclFlight> flight = put(call, what);
  if (flight != nullptr) wait_for(*flight, what);
}

/// Exchanges a first message between members. Without it, two members whose first messages are those of the
/// program would wait for each other on their hosts, in both directions at once, whatever else they had to
/// do. In a large group only neighbours exchange messages, because each connected member takes up buffers.
void NcclChannel::meet_members() {
  constexpr int kAllMeet = 16;
  const int n = group_.size();
  const Tensor in = sim::filled(*traffic_.device, DType::i32, {n}, 0);
  const Words what = [this] { return text("the first messages"); };
  const auto message = [&](Operation operation, int peer) {
    Call call(operation, "connect");
    call.peer = peer;
    call.count = 1;
    call.dtype = DType::i32;
    (operation == Operation::send ? call.input : call.output) =
        operation == Operation::send ? token_ : in.rows(peer, peer + 1);
    return put(call, what);
  };
  std::shared_ptr<NcclFlight> flight;
  for (int step = 1; step < n; ++step) {
    if (n > kAllMeet && step != 1 && step != n - 1) continue;
    message(Operation::send, (place_ + step) % n);
    flight = message(Operation::recv, (place_ + n - step) % n);
  }
  wait_for(*flight, what);
}

/// Refuses a ring that does not go through the places in order. A sum of floats depends on its order, so
/// the sums of another ring would look like errors of the program.
void NcclChannel::require_ring() {
  constexpr std::int64_t kCount = 32;
  const int n = group_.size();
  sim::Device& device = *traffic_.device;
  const Tensor own = tensor_of(device, values_of(n * kCount, place_));
  const Tensor found = device.empty(DType::f32, {kCount});
  Call call(Operation::reduce_scatter, "connect");
  call.input = own;
  call.output = found;
  call.count = kCount;
  call.dtype = DType::f32;
  run(call, [&] { return text("the first sums"); });
  const auto shared = std::make_shared<sim::CpuDevice>();
  sim::CpuDevice& cpu = *shared;
  std::vector<Tensor> blocks;
  for (int place = 0; place < n; ++place)
    blocks.push_back(
        tensor_of(cpu, values_of(n * kCount, place)).rows(place_ * kCount, (place_ + 1) * kCount));
  const Tensor expected = cpu.empty(DType::f32, {kCount});
  const sim::FoldPlan plan =
      sim::fold_plan({.kind = sim::ReductionOrderKind::nccl_ring}, call, group_, place_);
  cpu.fold(sim::ReduceOp::sum, sim::pointers_to(blocks), plan.segments, sim::pointers_to({&expected, 1}));
  // A block may be right by chance on some members, so the members agree: all of them refuse, or none.
  const bool is_own_right = bytes_of(found) == bytes_of(expected);
  const auto told = exchange({is_own_right ? 1 : 0}, [&] { return text("the first sums"); });
  if (std::all_of(told.begin(), told.end(), [](const auto& of_member) { return of_member.front() == 1; }))
    return;
  sim::refuse(
      {.code = "nccl_ring",
       .option = text("the first sums"),
       .numbers =
           fmt::format("NCCL added {} sums of {} floats in another order than that of the places", kCount, n),
       .rule = "in the exact order, NCCL's rings go from each place to the next",
       .hint =
           "--ranks-per-gpu 2 or more, which makes such rings, or --nccl-order any, which compares no bits"});
}

void NcclChannel::connect() {
  if (link_ == nullptr) return;
  await_link([&] { return text("making the communicator"); });
  token_ = sim::filled(*traffic_.device, DType::i32, {1}, 0);
  run(Call(Operation::barrier, "connect"), [&] { return text("the first call"); });
  meet_members();
  if (traffic_.order == NcclOrder::exact && group_.size() > 2) require_ring();
}

std::vector<std::vector<std::int32_t>> NcclChannel::exchange(const std::vector<std::int32_t>& own,
                                                             const Words& what) {
  if (link_ == nullptr) return {own};
  const auto n = static_cast<std::size_t>(group_.size());
  const auto count = static_cast<std::int64_t>(own.size());
  sim::Device& device = *traffic_.device;
  const Tensor input = sim::from_host(device, DType::i32, {count}, std::as_bytes(std::span(own)));
  const Tensor output = sim::filled(device, DType::i32, {group_.size() * count}, 0);
  Call call(Operation::all_gather, "exchange");
  call.input = input;
  call.output = output;
  call.count = count;
  call.dtype = DType::i32;
  run(call, what);
  const std::vector<std::byte> bytes = bytes_of(output);
  std::vector<std::vector<std::int32_t>> by_place(n, own);
  for (std::size_t place = 0; place < n; ++place) {
    const std::size_t size = own.size() * sizeof(std::int32_t);
    std::memcpy(by_place[place].data(), bytes.data() + place * size, size);
  }
  return by_place;
}

std::unique_ptr<NcclLink> NcclChannel::split(int color, int key, const Words& what) {
  await_link(what);
  std::unique_ptr<NcclLink> part = link_->split(color, key);
  await_link(what);
  return part;
}

void NcclChannel::close() {
  if (link_ == nullptr) return;
  const Words what = [this] { return text("the end"); };
  await_link(what);
  link_->begin_close();
  await_link(what);
  link_.reset();
}

}  // namespace gpu
