#include "tests/defects/faulty_communicator.h"

#include <cstdlib>
#include <utility>

namespace test {

namespace {

using sim::Call;
using sim::Operation;
using sim::Tensor;

void put(const Tensor& from, Tensor to) { sim::copy(from, to); }

struct Done : sim::Pending {
  void wait() override {}
};

std::shared_ptr<sim::Recorder> recorder_of_nothing() {
  return std::make_shared<sim::Recorder>(1'000'000, [] { std::abort(); });
}

class FaultyCommunicator : public sim::Communicator {
 public:
  FaultyCommunicator(sim::Communicator& real, sim::Device& device, FaultyCall fault)
      : Communicator(real.group(), real.rank(), device, recorder_of_nothing()),
        real_(real),
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
          real_.all_to_all_uneven(call.input, call.rare->send_rows, call.output, call.rare->receive_rows,
                                  call.site);
        });
      default:
        std::abort();  // the groups that have these faults make no other calls
    }
  }
  std::unique_ptr<Communicator> do_split(Call&&) override { std::abort(); }

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
      case CallFault::left_out_where_full:
        if (call.output->count() != fault_.full) right();
        return;
      case CallFault::over_half: {
        const int half = size() / 2;
        return rank() < half ? take_own(call, sum_of(call, 0, half))
                             : take_own(call, sum_of(call, half, size()));
      }
      case CallFault::without_last:
        return take_own(call, sum_of(call, 0, size() - 1));
      case CallFault::halves_interleaved:
        return interleave_halves(call, right);
      case CallFault::gathered:
        return gather_parts(call);
      case CallFault::summed: {
        const Tensor sum = sum_of(call, 0, size());
        for (int place = 0; place < size(); ++place) put(sum, block(call.output, place, size()));
        return;
      }
      case CallFault::skipped_without_rows:
        if (call.output->count() > 0) right();
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
    real_.all_gather(input, all, call.site);
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

  template <typename Right>
  void interleave_halves(const Call& call, const Right& right) {
    right();
    const Tensor got = sim::scale(call.output, {1, 1});
    for (int place = 0; place < size(); ++place)
      put(block(got, place % 2 * (size() / 2) + place / 2, size()), block(call.output, place, size()));
  }

  void gather_parts(const Call& call) {
    if (call.output->count() % size() != 0) return;
    const Tensor own = sim::scale(block(call.output, 0, size()), {1, 1});
    real_.all_gather(own, flat(call.output), call.site);
  }

  sim::Communicator& real_;
  FaultyCall fault_;
};

}  // namespace

FaultyGroups::FaultyGroups(sim::Rank& rank, FaultyCall fault) : real_(rank.groups), kind_(fault.group) {
  sim::Communicator* real = real_.find(kind_);  // null if this world has no such groups
  if (real == nullptr || real->size() == 1) return;
  faulty_ = std::make_unique<FaultyCommunicator>(*real, rank.device, std::move(fault));
}

FaultyGroups::~FaultyGroups() = default;

sim::Communicator& FaultyGroups::get(std::string_view kind) {
  return kind == kind_ && faulty_ != nullptr ? *faulty_ : real_.get(kind);
}

}  // namespace test
