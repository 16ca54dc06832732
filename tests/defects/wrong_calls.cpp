#include "tests/defects/wrong_calls.h"

#include <memory>
#include <optional>

#include "sim/tensor/ops.h"
#include "verify/faults/decorated_groups.h"

namespace test {

namespace {

using sim::Call;
using sim::Operation;
using sim::Tensor;

void put(const Tensor& from, Tensor to) { sim::copy(from, to); }

/// A call that is made as it is; or nothing that is left to wait for.
struct Rest : sim::Pending {
  void wait() override {
    if (work) work->wait();
  }
  std::optional<sim::Work> work;
};

class WrongCommunicator : public verify::DecoratedCommunicator {
 public:
  /// `fault` is null in the groups of other kinds.
  WrongCommunicator(sim::Communicator& real, sim::Device& device, const FaultyCall* fault)
      : DecoratedCommunicator(real, device), fault_(fault) {}

 private:
  std::unique_ptr<sim::Pending> do_call(Call&& call) override {
    auto rest = std::make_unique<Rest>();
    if (fault_ != nullptr && fault_->site == call.site.name) {
      run_wrongly(call);
    } else {
      rest->work = pass_on(call);
    }
    return rest;
  }
  void right(const Call& call) { pass_on(call).wait(); }

  void run_wrongly(const Call& call) {
    switch (fault_->fault) {
      case CallFault::left_out_where_full:
        if (call.output->count() != fault_->full) right(call);
        return;
      case CallFault::over_half: {
        const int half = size() / 2;
        return rank() < half ? take_own(call, sum_of(call, 0, half))
                             : take_own(call, sum_of(call, half, size()));
      }
      case CallFault::without_last:
        return take_own(call, sum_of(call, 0, size() - 1));
      case CallFault::halves_interleaved:
        return interleave_halves(call);
      case CallFault::gathered:
        return gather_parts(call);
      case CallFault::summed: {
        const Tensor sum = sum_of(call, 0, size());
        for (int place = 0; place < size(); ++place) put(sum, block(call.output, place, size()));
        return;
      }
      case CallFault::skipped_without_rows:
        if (call.output->count() > 0) right(call);
        return;
    }
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
    real().all_gather(input, all, call.site);
    return all;
  }
  /// Returns the sum of what the ranks from `first` to `last` - 1 give.
  Tensor sum_of(const Call& call, int first, int last) {
    const Tensor all = all_inputs(call);
    Tensor sum = sim::scale(block(all, 0, size()), {0, 1});
    for (int place = first; place < last; ++place) sum = sim::add(sum, block(all, place, size()));
    return sum;
  }

  /// Gives this rank its own part of a whole tensor: the tensor itself or its block.
  void take_own(const Call& call, const Tensor& whole) {
    const Tensor own =
        call.operation == Operation::reduce_scatter ? block(whole, rank(), size()) : flat(whole);
    if (!own.overlaps(call.output)) put(own, flat(call.output));
  }

  void interleave_halves(const Call& call) {
    right(call);
    const Tensor got = sim::scale(call.output, {1, 1});
    for (int place = 0; place < size(); ++place)
      put(block(got, place % 2 * (size() / 2) + place / 2, size()), block(call.output, place, size()));
  }

  void gather_parts(const Call& call) {
    if (call.output->count() % size() != 0) return;
    const Tensor own = sim::scale(block(call.output, 0, size()), {1, 1});
    real().all_gather(own, flat(call.output), call.site);
  }

  const FaultyCall* fault_;
};

}  // namespace

void run_with_fault(const FaultyCall& fault, sim::Rank& rank, const sim::RankProgram& program) {
  const sim::Communicator* faulty = rank.groups.find(fault.group);  // null if this world has no such groups
  verify::DecoratedGroups groups(rank.groups, [&](sim::Communicator& real) {
    return std::make_unique<WrongCommunicator>(real, rank.device, &real == faulty ? &fault : nullptr);
  });
  verify::run_with(program, rank, groups);
}

}  // namespace test
