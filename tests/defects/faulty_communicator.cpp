#include "tests/defects/faulty_communicator.h"

#include <cstdlib>
#include <functional>
#include <utility>

namespace test {

namespace {

using sim::Call;
using sim::Operation;
using sim::ReduceOp;
using sim::Tensor;

void put(const Tensor& from, Tensor to) { sim::copy(from, to); }

struct Done : sim::Pending {
  void wait() override {}
};

/// A message that stays in flight while other calls go on, as in a batch.
struct Message : sim::Pending {
  explicit Message(sim::Work of_work) : work(std::move(of_work)) {}
  void wait() override {
    work.wait();
    if (after) after();
  }
  sim::Work work;
  std::function<void()> after;
};

std::shared_ptr<sim::Recorder> recorder_of_nothing() {
  return std::make_shared<sim::Recorder>(1'000'000, [] { std::abort(); });
}

class FaultyCommunicator : public sim::Communicator {
 public:
  FaultyCommunicator(sim::Communicator& real, sim::Communicator* other, sim::Device& device, FaultyCall fault)
      : Communicator(real.group(), real.rank(), device, recorder_of_nothing()),
        real_(real),
        other_(other),
        fault_(std::move(fault)) {}

 private:
  using Result = std::unique_ptr<sim::Pending>;

  Result do_call(Call&& call) override {
    switch (call.operation) {
      case Operation::all_reduce:
        return run(call, [&] { real_.all_reduce(call.output, call.reduce_op, call.site); });
      case Operation::reduce_scatter:
        return run(call, [&] { real_.reduce_scatter(call.input, call.output, call.reduce_op, call.site); });
      case Operation::all_gather:
        return run(call, [&] { real_.all_gather(call.input, call.output, call.site); });
      case Operation::all_to_all:
        return run(call, [&] { real_.all_to_all(call.input, call.output, call.site); });
      case Operation::all_to_all_uneven:
        return run(call, [&] {
          real_.all_to_all_uneven(call.input, call.send_rows, call.output, call.receive_rows, call.site);
        });
      case Operation::reduce:
        return run(call, [&] { real_.reduce(call.input, call.reduce_op, call.root, call.site); });
      case Operation::broadcast:
        return broadcast(call);
      case Operation::send:
        return std::make_unique<Message>(real_.start_send(call.input, receiver_of(call), call.site));
      case Operation::recv:
        return receive(call);
      default:
        std::abort();  // rank programs of this project make no other calls
    }
  }
  std::unique_ptr<Communicator> do_split(Call&&) override { std::abort(); }

  bool is_at_fault(const Call& call, CallFault fault) const {
    return fault_.site == call.site.name && fault_.fault == fault;
  }
  /// Returns the place that is as far on the other side of this rank.
  int opposite(int peer) const { return (2 * rank() - peer + size()) % size(); }
  int receiver_of(const Call& call) const {
    const bool turns =
        is_at_fault(call, CallFault::to_other_neighbour) || is_at_fault(call, CallFault::sent_to_the_source);
    return turns ? opposite(call.peer) : call.peer;
  }
  int sender_of(const Call& call) const {
    return is_at_fault(call, CallFault::to_other_neighbour) ? opposite(call.peer) : call.peer;
  }

  Result broadcast(const Call& call) {
    if (fault_.site == call.site.name) return std::make_unique<Done>();  // the broadcast is left out
    real_.broadcast(call.output.is_none() ? call.input : call.output, call.root, call.site);
    return std::make_unique<Done>();
  }
  Result receive(const Call& call) {
    auto message = std::make_unique<Message>(real_.start_recv(call.output, sender_of(call), call.site));
    if (is_at_fault(call, CallFault::stale)) message->after = [this, call] { change_received(call); };
    return message;
  }

  template <typename Right>
  Result run(const Call& call, const Right& right) {
    if (fault_.site == call.site.name) {
      run_wrongly(call, right);
    } else {
      right();
    }
    return std::make_unique<Done>();
  }

  template <typename Right>
  void run_wrongly(const Call& call, const Right& right) {
    switch (fault_.fault) {
      case CallFault::left_out:
        return take_own(call, call.input);
      case CallFault::left_out_where_full:
        return call.output.count() == fault_.full ? take_own(call, call.input) : right();
      case CallFault::doubled:
        if (call.operation == Operation::reduce_scatter) return take_own(call, sum_of(call, 0, size(), 2));
        right();
        return right();
      case CallFault::averaged:
        right();
        return put(sim::scale(call.output, {1, size()}), call.output);
      case CallFault::maximum: {
        Call other = call;
        other.reduce_op = ReduceOp::max;
        return real_.all_reduce(other.output, other.reduce_op, other.site);
      }
      case CallFault::over_half: {
        const int half = size() / 2;
        return rank() < half ? take_own(call, sum_of(call, 0, half, 1))
                             : take_own(call, sum_of(call, half, size(), 1));
      }
      case CallFault::without_last:
        return take_own(call, sum_of(call, 0, size() - 1, 1));
      case CallFault::of_next_rank:
        return take_next(call, right);
      case CallFault::halves_interleaved:
        return interleave_halves(call, right);
      case CallFault::gathered:
        return gather_parts(call);
      case CallFault::summed: {
        const Tensor sum = sum_of(call, 0, size(), 1);
        for (int place = 0; place < size(); ++place) put(sum, block(call.output, place, size()));
        return;
      }
      case CallFault::skipped_by_one:
        if (rank() != 1) right();
        return;
      case CallFault::skipped_without_rows:
        if (call.output.count() > 0) right();
        return;
      case CallFault::over_other_group:
        return other_->all_reduce(call.output, call.reduce_op, call.site);
      case CallFault::to_other_neighbour:
      case CallFault::sent_to_the_source:
        std::abort();  // faults of messages alone
      case CallFault::zeroed: {
        Tensor output = call.output;
        return sim::fill(output, 0);
      }
      case CallFault::stale: {
        const Tensor before = kept_.is_none() ? sim::scale(call.output, {0, 1}) : kept_;
        right();
        kept_ = sim::scale(call.output, {1, 1});
        return put(before, call.output);
      }
    }
  }

  /// Replaces the received message by the one before it. It uses the device's own kernels, because
  /// operations refuse a buffer whose call is not over yet.
  void change_received(const Call& call) {
    sim::Device& device = call.output.device();
    Tensor to = call.output;
    Tensor arrived = device.empty(to.dtype(), to.shape());
    device.copy(to, arrived);
    if (!kept_.is_none()) device.copy(kept_, to);
    kept_ = arrived;
  }

  static Tensor flat(const Tensor& x) { return x.reshaped({x.count()}); }
  static Tensor block(const Tensor& x, int place, int places) {
    const std::int64_t count = x.count() / places;
    return flat(x).rows(place * count, (place + 1) * count);
  }

  /// Returns the inputs of all ranks, one after another.
  Tensor all_inputs(const Call& call) {
    const Tensor input = flat(call.input);
    const Tensor all = input.device().empty(input.dtype(), {size() * input.count()});
    real_.all_gather(input, all, call.site);
    return all;
  }
  /// Returns `times` times the sum of what the ranks from `first` to `last` - 1 give.
  Tensor sum_of(const Call& call, int first, int last, std::int64_t times) {
    const Tensor all = all_inputs(call);
    Tensor sum = sim::scale(block(all, 0, size()), {0, 1});
    for (int place = first; place < last; ++place) sum = sim::add(sum, block(all, place, size()));
    return sim::scale(sum, {times, 1});
  }

  /// Gives this rank its own part of a whole tensor: the tensor itself or its block, and in a gather the
  /// input at every place.
  void take_own(const Call& call, const Tensor& whole) {
    if (call.operation == Operation::reduce) return;  // it sums in place
    if (call.operation == Operation::all_gather) {
      for (int place = 0; place < size(); ++place) put(flat(whole), block(call.output, place, size()));
      return;
    }
    const Tensor own =
        call.operation == Operation::reduce_scatter ? block(whole, rank(), size()) : flat(whole);
    if (!own.overlaps(call.output)) put(own, flat(call.output));
  }

  template <typename Right>
  void take_next(const Call& call, const Right& right) {
    if (call.operation == Operation::reduce_scatter) {
      return put(block(sum_of(call, 0, size(), 1), (rank() + 1) % size(), size()), flat(call.output));
    }
    right();
    const Tensor got = sim::scale(call.output, {1, 1});
    for (int place = 0; place < size(); ++place)
      put(block(got, (place + 1) % size(), size()), block(call.output, place, size()));
  }

  template <typename Right>
  void interleave_halves(const Call& call, const Right& right) {
    right();
    const Tensor got = sim::scale(call.output, {1, 1});
    for (int place = 0; place < size(); ++place)
      put(block(got, place % 2 * (size() / 2) + place / 2, size()), block(call.output, place, size()));
  }

  void gather_parts(const Call& call) {
    if (call.output.count() % size() != 0) return;
    const Tensor own = sim::scale(block(call.output, 0, size()), {1, 1});
    real_.all_gather(own, flat(call.output), call.site);
  }

  sim::Communicator& real_;
  sim::Communicator* other_;  // null but for over_other_group
  FaultyCall fault_;
  Tensor kept_;
};

}  // namespace

FaultyGroups::FaultyGroups(sim::Rank& rank, FaultyCall fault) : real_(rank.groups), kind_(fault.group) {
  sim::Communicator* real = real_.find(kind_);  // null if this world has no such groups
  if (real == nullptr || real->size() == 1) return;
  sim::Communicator* other = fault.other.empty() ? nullptr : &real_.get(fault.other);
  faulty_ = std::make_unique<FaultyCommunicator>(*real, other, rank.device, std::move(fault));
}

FaultyGroups::~FaultyGroups() = default;

sim::Communicator& FaultyGroups::get(std::string_view kind) {
  return kind == kind_ && faulty_ != nullptr ? *faulty_ : real_.get(kind);
}

}  // namespace test
