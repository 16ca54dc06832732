#pragma once

/// Groups that stand between a rank program and its own groups: each communicator is decorated by another
/// one, which passes the calls on. The program is not changed.
///
/// Shapes  Groups of one rank are not decorated, and neither are those that split() makes.
/// Calls   The real communicators check and record the calls that reach them. A decorated one checks what the
///         program asks for, and keeps no record of it.

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "sim/comm/communicator.h"
#include "sim/comm/groups.h"
#include "sim/comm/rank.h"

namespace verify {

/// A communicator that passes its calls on to another one.
class DecoratedCommunicator : public sim::Communicator {
 public:
  DecoratedCommunicator(sim::Communicator& real, sim::Device& device);

 protected:
  sim::Communicator& real() { return real_; }
  /// Starts a call in the other communicator.
  sim::Work pass_on(const sim::Call& call) { return start_in(real_, call); }
  static sim::Work start_in(sim::Communicator& group, const sim::Call& call);

 private:
  std::unique_ptr<sim::Communicator> do_split(sim::Call&& call) override;

  sim::Communicator& real_;
};

class DecoratedGroups : public sim::Groups {
 public:
  using Decorate = std::function<std::unique_ptr<sim::Communicator>(sim::Communicator& real)>;
  DecoratedGroups(sim::Groups& real, Decorate decorate) : real_(real), decorate_(std::move(decorate)) {}

  sim::Communicator& world() override { return *decorated(&real_.world()); }
  sim::Communicator& get(std::string_view kind) override { return *decorated(&real_.get(kind)); }
  sim::Communicator* find(std::string_view kind) override { return decorated(real_.find(kind)); }
  sim::Communicator* new_group(std::string name, const std::vector<int>& members, sim::Site site) override;

 private:
  sim::Communicator* decorated(sim::Communicator* real);

  sim::Groups& real_;
  Decorate decorate_;
  // It is looked up and never gone through.
  std::map<const sim::Communicator*, std::unique_ptr<sim::Communicator>> known_;
};

/// Runs the program on a rank that has other groups.
void run_with(const sim::RankProgram& program, sim::Rank& rank, sim::Groups& groups);

// Lets a caller look at the calls of a rank program, which is not changed: at the data that a rank gives to
// a call, and at the result that it gets.
//
// Calls   The watch is called on the rank that makes the call, and only reads. The program waits meanwhile.
//         Ranks that run on several threads call it at the same time.

struct SeenCall {
  const sim::Rank& rank;
  const sim::ProcessGroup& group;
  int place;              // of the rank in the group
  const sim::Call& call;  // the number of the call in its group included
  bool is_over;           // whether the result is there
};
using CallWatch = std::function<void(const SeenCall& seen)>;

/// Returns the program, whose calls the watch sees in groups of several ranks: twice each, before it begins
/// and when its result is there.
sim::RankProgram with_watch(sim::RankProgram program, CallWatch watch);

}  // namespace verify
