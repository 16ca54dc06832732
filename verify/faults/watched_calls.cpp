#include "verify/faults/watched_calls.h"

#include <memory>
#include <utility>

#include "verify/faults/decorated_groups.h"

namespace verify {

namespace {

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

sim::RankProgram with_watch(sim::RankProgram program, CallWatch watch) {
  return [program = std::move(program), watch = std::move(watch)](sim::Rank& rank) {
    DecoratedGroups groups(rank.groups, [&](sim::Communicator& real) {
      return std::make_unique<WatchedCommunicator>(real, rank, watch);
    });
    run_with(program, rank, groups);
  };
}

}  // namespace verify
