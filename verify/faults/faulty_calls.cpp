#include "verify/faults/faulty_calls.h"

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <numeric>
#include <utility>

#include "sim/base/check.h"
#include "sim/tensor/device.h"
#include "verify/faults/decorated_groups.h"
#include "verify/faults/faulty_device.h"

namespace verify {

namespace {

// ---- the order of blocks
//
// The blocks of a tensor, one for each place of a group, and the tensor with its blocks in another order.

/// Returns a block of the elements.
inline sim::Tensor block_of(const sim::Tensor& x, int place, int places) {
  const std::int64_t count = x.count() / places;
  return x.flat().rows(place * count, (place + 1) * count);
}

/// Returns a copy in which the first two blocks change places, or each block is the next one. The blocks have
/// these rows of x.
inline sim::Tensor in_other_order(const sim::Tensor& x, const std::vector<std::int64_t>& rows, bool swaps) {
  const sim::Tensor all = x.device().empty(x.dtype(), x.shape());
  const std::size_t places = rows.size();
  std::int64_t begin = 0;
  for (std::size_t place = 0; place < places; ++place) {
    const std::size_t swapped = place < 2 ? 1 - place : place;
    const std::size_t from = swaps ? swapped : (place + 1) % places;
    const std::int64_t first =
        std::accumulate(rows.begin(), rows.begin() + static_cast<std::ptrdiff_t>(from), std::int64_t{0});
    sim::Tensor to = all.rows(begin, begin + rows[from]);
    if (rows[from] > 0) x.device().copy(x.rows(first, first + rows[from]), to);
    begin += rows[from];
  }
  return all;
}
inline sim::Tensor in_other_order(const sim::Tensor& x, int places, bool swaps) {
  const std::vector<std::int64_t> blocks(static_cast<std::size_t>(places), x.count() / places);
  return in_other_order(x.flat(), blocks, swaps).reshaped(x.shape());
}

// ---- faulty calls

using sim::Call;
using sim::Communicator;
using sim::Operation;
using sim::Tensor;

/// Calls in flight, and what happens to their buffers once they are over. The kernels of the device are
/// called as they are, because operations refuse a buffer whose call the program has not waited for.
struct Flight : sim::Pending {
  void wait() override {
    for (sim::Work& work : works) work.wait();
    if (after) after();
  }
  std::vector<sim::Work> works;
  std::function<void()> after;
};

void copy_to(const Tensor& from, Tensor to) { to.device().copy(from, to); }

Tensor empty_like(const Tensor& x) { return x.is_none() ? x : x.device().empty(x.dtype(), x.shape()); }
Tensor copy_of(const Tensor& x) {
  if (x.is_none()) return x;
  Tensor copy = empty_like(x);
  copy_to(x, copy);
  return copy;
}

/// Poisons what a call would write and a fault may leave as it is: what is in new memory is not known, and no
/// result may depend on it.
void poison_output(const Call& call) {
  if (call.output->is_none()) return;
  const bool shares = !call.input->is_none() && call.input->overlaps(call.output);
  const Tensor input = shares ? copy_of(call.input) : Tensor();
  Tensor output = call.output;
  output.device().poison(output);
  if (shares) copy_to(input, call.input);
}

bool works_in_place(const Call& call) {
  return sim::is_in_place(call.operation) || call.operation == Operation::broadcast;
}

/// What a fault of one rank keeps from call to call, for all of the rank's groups.
class FaultOfRank {
 public:
  FaultOfRank(const Fault& fault, const sim::Rank& rank)
      : fault_(fault), rank_(rank.id), groups_(rank.groups), record_(rank.record) {}

  const Fault& fault() const { return fault_; }
  int rank() const { return rank_; }
  sim::Groups& groups() { return groups_; }

  /// Whether a call is made wrongly: one that has the fault, or one that comes before an early call.
  bool takes(const Call& call, const Communicator& group) {
    const std::int64_t number = calls_++;
    const bool is_met =
        fault_.kind == FaultKind::early ? fault_.before->has(rank_, number) : has_fault(call, group);
    if (is_met) ++*fault_.met;
    return is_met;
  }
  /// Adds the call before this one, if this one has the fault.
  void add_before(const Call& call, const Communicator& group, CallsBefore& before) {
    const std::int64_t number = calls_++;
    const std::string site_before = std::exchange(latest_site_, call.site.name);
    if (has_fault(call, group) && number > 0) before.add(rank_, number - 1, site_before);
  }
  /// Returns the input of the call before at this site and in this group, where it has the same form.
  Tensor stale_input(const Call& call, const Communicator& group) {
    Tensor& kept = kept_[{call.site.name, sim::short_text_of(group.group())}];
    const Tensor own = copy_of(call.input);
    const Tensor before = std::exchange(kept, own);
    const bool fits =
        !before.is_none() && !own.is_none() && before.dtype() == own.dtype() && before.shape() == own.shape();
    return copy_of(fits ? before : own);  // a call in place changes it
  }
  void put_off(std::function<void()> rest) { rest_.push_back(std::move(rest)); }
  /// Does what was put off until another call has begun, or until the program is over.
  void catch_up() {
    for (const auto& rest : std::exchange(rest_, {})) rest();
  }

 private:
  /// Whether a device can multiply what the call gives. It moves and reduces the dtypes of programs outside,
  /// and computes in the first five alone.
  bool can_change(const Call& call) const {
    return fault_.kind != FaultKind::scale || call.output->is_none() ||
           call.output->dtype() <= sim::DType::i32;
  }
  /// Whether a call has the fault. It counts the calls of the site.
  bool has_fault(const Call& call, const Communicator& group) {
    const CallPlace place{rank_, group.rank(), group.group().kind, record_.part()};
    if (!fault_.fits(call.site.name, call.operation)) {
      if (*fault_.met == 0 && fault_.is_of_calls() && fits_pattern(fault_.site, call.site.name))
        fault_.seen->add_other(fault_.where, place, call.operation);
      return false;
    }
    if (!fault_.is_at(place) || !can_change(call)) return false;
    const std::int64_t number = calls_at_[call.site.name]++;
    return fault_.where.call.value_or(number) == number;
  }

  const Fault& fault_;
  int rank_;
  sim::Groups& groups_;
  const sim::Recorder& record_;
  std::int64_t calls_ = 0;  // in groups of several ranks
  std::string latest_site_;
  std::map<std::string, std::int64_t> calls_at_;
  std::map<std::pair<std::string, std::string>, Tensor> kept_;
  std::vector<std::function<void()>> rest_;
};

class FaultyCommunicator : public DecoratedCommunicator {
 public:
  FaultyCommunicator(Communicator& real, sim::Device& device, FaultOfRank& of_rank)
      : DecoratedCommunicator(real, device), of_rank_(of_rank) {}

 private:
  using Result = std::unique_ptr<sim::Pending>;

  Result do_call(Call&& call) override {
    auto flight = std::make_unique<Flight>();
    if (of_rank_.takes(call, real())) {
      // What an earlier call left is done once this one has begun; what this one leaves waits for the next.
      FaultOfRank& rank = of_rank_;
      std::function<void()> rest = make_wrongly(call, *flight);
      rank.catch_up();
      if (rest) rank.put_off(std::move(rest));
      return flight;
    }
    flight->works.push_back(pass_on(call));
    of_rank_.catch_up();
    return flight;
  }

  /// Makes the call with its fault. Returns what is left to do when the next call has begun; or null.
  std::function<void()> make_wrongly(const Call& call, Flight& flight) {
    const Fault& fault = of_rank_.fault();
    if (!works_in_place(call)) poison_output(call);
    switch (fault.kind) {
      case FaultKind::skip:
        take_own(call);
        return nullptr;
      case FaultKind::twice:
        make_twice(call, flight);
        return nullptr;
      case FaultKind::late:
      case FaultKind::early:  // this is the call before it
        return [this, call] { pass_on(call).wait(); };
      case FaultKind::no_wait:
        return without_wait(call);
      case FaultKind::wrong_group:
        flight.works.push_back(start_in(of_rank_.groups().get(fault.group), call));
        return nullptr;
      default:
        flight.works.push_back(pass_on(changed_call(call, flight)));
        return nullptr;
    }
  }

  /// Returns a call that is passed on with its fault.
  Call changed_call(const Call& call, Flight& flight) {
    const Fault& fault = of_rank_.fault();
    Call changed = call;
    switch (fault.kind) {
      case FaultKind::op:
        changed.reduce_op = fault.reduce_op;
        break;
      case FaultKind::scale:
      case FaultKind::nan:
        flight.after = [this, call] { change(call.output); };
        break;
      case FaultKind::root:
        changed.root = (call.root + 1) % size();
        break;
      case FaultKind::peer:
        changed.peer = beside(call.peer, fault.step);
        break;
      case FaultKind::swap_blocks:
      case FaultKind::next_block:
        change_blocks(changed, flight);
        break;
      case FaultKind::own_term:
        changed = on_copies(call);
        flight.after = [this, call] { take_own(call); };
        break;
      case FaultKind::stale:
        change_input(changed, of_rank_.stale_input(call, real()), flight);
        break;
      case FaultKind::dtype:
        change_input(changed, rounded(call.input), flight);
        break;
      case FaultKind::truncate:
        flight.after = keep_end(call.output, fault.elements);
        break;
      default:
        std::abort();  // faults of kernels fit no call
    }
    return changed;
  }

  /// Gives the rank its own part in place of the result.
  void take_own(const Call& call) const {
    if (call.output->is_none() || call.input->is_none() || works_in_place(call)) return;
    const Tensor input = call.input->flat(), output = call.output->flat();
    if (input.overlaps(output)) return;
    switch (call.operation) {
      case Operation::reduce_scatter:
      case Operation::scatter:
        return copy_to(block_of(input, rank(), size()), output);
      case Operation::all_gather:
      case Operation::gather:
        for (int place = 0; place < size(); ++place) copy_to(input, block_of(output, place, size()));
        return;
      default:
        if (input.count() == output.count()) copy_to(input, output);
    }
  }

  void make_twice(const Call& call, Flight& flight) {
    flight.works.push_back(pass_on(call));
    if (!sim::is_point_to_point(call.operation)) flight.works.front().wait();
    flight.works.push_back(pass_on(call));
  }

  /// Returns the call on buffers of its own, so that the program's output stays as it is.
  static Call on_copies(Call call) {
    if (works_in_place(call)) {
      const bool has_input = !call.input->is_none(), has_output = !call.output->is_none();
      const Tensor copy = copy_of(has_input ? call.input : call.output);
      if (has_input) call.input = copy;
      if (has_output) call.output = copy;
      return call;
    }
    if (!call.output->is_none() && !call.input->is_none()) call.input = copy_of(call.input);
    call.output = empty_like(call.output);
    return call;
  }

  std::function<void()> without_wait(const Call& call) {
    const Call own = on_copies(call);
    auto work = std::make_shared<sim::Work>(pass_on(own));
    return [work, from = *own.output, to = *call.output] {
      work->wait();
      if (!to.is_none()) copy_to(from, to);
    };
  }

  int beside(int peer, int step) const {
    const int next = (peer + step + size()) % size();
    return next == rank() ? (next + step + size()) % size() : next;
  }

  void change(Tensor output) const {
    if (output.is_none()) return;
    Fault fault = of_rank_.fault();
    if (const Factor& factor = fault.factor; !factor.kind.empty()) {
      const Communicator* group = of_rank_.groups().find(factor.kind);
      const int members = group == nullptr ? 1 : group->size();
      fault.factor.number = factor.is_inverse ? sim::Ratio{1, members} : sim::Ratio{members, 1};
    }
    change_result(fault, output);
  }

  void change_blocks(Call& call, Flight& flight) const {
    const bool swaps = of_rank_.fault().kind == FaultKind::swap_blocks;
    const int places = size();
    const bool cuts_input =
        call.operation == Operation::reduce_scatter || call.operation == Operation::scatter;
    if (!cuts_input) {
      flight.after = [output = *call.output, rows = call.rare->receive_rows, places, swaps] {
        if (output.is_none()) return;
        copy_to(rows.empty() ? in_other_order(output, places, swaps) : in_other_order(output, rows, swaps),
                output);
      };
    } else if (!call.input->is_none()) {
      const Tensor other = in_other_order(call.input, places, swaps);
      if (call.input->overlaps(call.output)) return change_input(call, other, flight);
      call.input = other;
    }
  }

  /// Makes the call with another input. Where input and output share memory the result is copied afterwards.
  static void change_input(Call& call, const Tensor& input, Flight& flight) {
    if (call.input->is_none()) return;
    if (!call.output->is_none() && call.input->overlaps(call.output)) {
      const Tensor output = call.output;
      const Tensor result = works_in_place(call) ? input : empty_like(output);
      flight.after = [result, output] { copy_to(result, output); };
      call.output = result;
    }
    call.input = input;
  }

  static Tensor rounded(const Tensor& x) {
    const bool is_wide = !x.is_none() && (x.dtype() == sim::DType::f32 || x.dtype() == sim::DType::f64);
    if (!is_wide) return x;
    Tensor narrow = x.device().empty(sim::DType::bf16, x.shape()), wide = empty_like(x);
    x.device().cast(x, narrow);
    x.device().cast(narrow, wide);
    return wide;
  }

  static std::function<void()> keep_end(const Tensor& output, std::int64_t elements) {
    if (output.is_none() || output.count() == 0) return nullptr;
    const Tensor flat = output.flat();
    const Tensor end = flat.rows(flat.count() - std::min(elements, flat.count()), flat.count());
    return [end, kept = copy_of(end)] { copy_to(kept, end); };
  }

  FaultOfRank& of_rank_;
};

/// A communicator that makes all calls as they are, and notes those before the calls that have the fault.
class NotingCommunicator : public DecoratedCommunicator {
 public:
  NotingCommunicator(Communicator& real, sim::Device& device, FaultOfRank& of_rank, CallsBefore& before)
      : DecoratedCommunicator(real, device), of_rank_(of_rank), before_(before) {}

 private:
  std::unique_ptr<sim::Pending> do_call(Call&& call) override {
    of_rank_.add_before(call, real(), before_);
    auto flight = std::make_unique<Flight>();
    flight->works.push_back(pass_on(call));
    return flight;
  }

  FaultOfRank& of_rank_;
  CallsBefore& before_;
};

/// Returns the calls of a run without faults that come right before those that have the fault.
std::shared_ptr<const CallsBefore> calls_before(const Fault& fault, const sim::WorldSpec& spec,
                                                sim::Device& device, const sim::RankProgram& program) {
  auto before = std::make_shared<CallsBefore>();
  static_cast<void>(sim::simulate(spec, device, [&](sim::Rank& rank) {
    FaultOfRank of_rank(fault, rank);
    DecoratedGroups groups(rank.groups, [&](Communicator& real) {
      return std::make_unique<NotingCommunicator>(real, rank.device, of_rank, *before);
    });
    run_with(program, rank, groups);
  }));
  return before;
}

sim::RankProgram with_fault(sim::RankProgram program, const Fault& fault) {
  SIM_CHECK(fault.kind != FaultKind::early || fault.before != nullptr);
  return [program = std::move(program), fault](sim::Rank& rank) {
    FaultOfRank of_rank(fault, rank);
    DecoratedGroups groups(rank.groups, [&](Communicator& real) {
      return std::make_unique<FaultyCommunicator>(real, rank.device, of_rank);
    });
    run_with(program, rank, groups);
    of_rank.catch_up();
  };
}

}  // namespace

std::vector<Fault> with_calls_before(std::vector<Fault> faults, const sim::WorldSpec& spec,
                                     sim::Device& device, const sim::RankProgram& program) {
  for (Fault& fault : faults) {
    if (fault.kind == FaultKind::early) fault.before = calls_before(fault, spec, device, program);
  }
  return faults;
}

sim::RankProgram with_faults(sim::RankProgram program, const std::vector<Fault>& faults) {
  for (const Fault& fault : faults) {
    if (fault.is_of_calls()) program = with_fault(std::move(program), fault);
  }
  return program;
}

}  // namespace verify
