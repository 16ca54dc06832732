#include "verify/faults/decorated_groups.h"

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <utility>

namespace verify {

namespace {

using sim::Call;
using sim::Communicator;
using sim::Operation;
using sim::Tensor;

/// The program's own recorder has the calls that are really made. Those that were asked for are kept nowhere.
std::shared_ptr<sim::Recorder> recorder_of_nothing() {
  constexpr std::int64_t kKept = 1;
  return std::make_shared<sim::Recorder>(
      INT64_MAX, [] { std::abort(); }, sim::kMostPublishedBytes, kKept);
}

/// The tensor of a call that has one.
const Tensor& tensor_of(const Call& call) { return call.input->is_none() ? call.output : call.input; }

class WatchedCommunicator : public DecoratedCommunicator {
 public:
  WatchedCommunicator(sim::Communicator& real, sim::Rank& rank, const CallWatch& watch)
      : DecoratedCommunicator(real, rank.device), rank_(rank), watch_(watch) {}

 private:
  struct Flight : sim::Pending {
    Flight(WatchedCommunicator& in_group, sim::Call&& of_call) : group(in_group), call(std::move(of_call)) {}
    void wait() override {
      work.wait();
      group.see(call, true);
    }
    WatchedCommunicator& group;
    sim::Call call;
    sim::Work work;
  };

  std::unique_ptr<sim::Pending> do_call(sim::Call&& call) override {
    auto flight = std::make_unique<Flight>(*this, std::move(call));
    see(flight->call, false);
    flight->work = pass_on(flight->call);
    return flight;
  }
  void see(const sim::Call& call, bool is_over) { watch_({rank_, group(), rank(), call, is_over}); }

  sim::Rank& rank_;
  const CallWatch& watch_;
};

}  // namespace

DecoratedCommunicator::DecoratedCommunicator(Communicator& real, sim::Device& device)
    : Communicator(real.group(), real.rank(), device, recorder_of_nothing()), real_(real) {}

std::unique_ptr<Communicator> DecoratedCommunicator::do_split(Call&& call) {
  return real_.split(call.rare->color, call.rare->key, call.site);
}

sim::Work DecoratedCommunicator::start_in(Communicator& group, const Call& call) {
  const Tensor& either = tensor_of(call);
  switch (call.operation) {
    case Operation::all_reduce:
      return group.start_all_reduce(call.output, call.reduce_op, call.site);
    case Operation::reduce_scatter:
      return group.start_reduce_scatter(call.input, call.output, call.reduce_op, call.site);
    case Operation::all_gather:
      return group.start_all_gather(call.input, call.output, call.site);
    case Operation::broadcast:
      return group.start_broadcast(either, call.root, call.site);
    case Operation::reduce:
      return group.start_reduce(either, call.reduce_op, call.root, call.site);
    case Operation::gather:
      return group.start_gather(call.input, call.output, call.root, call.site);
    case Operation::scatter:
      return group.start_scatter(call.input, call.output, call.root, call.site);
    case Operation::all_to_all:
      return group.start_all_to_all(call.input, call.output, call.site);
    case Operation::all_to_all_uneven:
      return group.start_all_to_all_uneven(call.input, call.rare->send_rows, call.output,
                                           call.rare->receive_rows, call.site);
    case Operation::send:
    case Operation::recv: {
      const sim::PointToPoint message{call.operation, either, call.peer};
      return group.start_batch({&message, 1}, call.site, call.continues_batch);
    }
    case Operation::barrier:
      return group.start_barrier(call.site);
    case Operation::split:
    case Operation::new_group:
      break;
  }
  std::abort();  // do_call() gets no such call
}

Communicator* DecoratedGroups::new_group(std::string name, const std::vector<int>& members, sim::Site site) {
  return decorated(real_.new_group(std::move(name), members, site));
}

Communicator* DecoratedGroups::decorated(Communicator* real) {
  if (real == nullptr || real->size() == 1) return real;
  std::unique_ptr<Communicator>& known = known_[real];
  if (known == nullptr) known = decorate_(*real);
  return known.get();
}

void run_with(const sim::RankProgram& program, sim::Rank& rank, sim::Groups& groups) {
  sim::Rank own{rank.id, rank.layout, rank.device, groups, rank.random, rank.record};
  program(own);
}

sim::RankProgram with_watch(sim::RankProgram program, CallWatch watch) {
  return [program = std::move(program), watch = std::move(watch)](sim::Rank& rank) {
    DecoratedGroups groups(rank.groups, [&](sim::Communicator& real) {
      return std::make_unique<WatchedCommunicator>(real, rank, watch);
    });
    run_with(program, rank, groups);
  };
}

}  // namespace verify
