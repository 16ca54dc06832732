#pragma once

/// Communicators that do something else at one call site: what layers get wrong in a collective, and the
/// grammar of verify/faults cannot say.
///
/// Calls   All ranks make the wrong call together, so the world runs on and only the values are wrong. The
///         exception is skipped_without_rows. Only the collectives that have such faults are passed on.

#include <memory>
#include <string>

#include "sim/comm/rank.h"

namespace test {

enum class CallFault {
  left_out_where_full,   // an all_reduce of `full` elements is not made
  over_half,             // the sum over only the lower or the upper half of the group
  without_last,          // the sum without the last member's term
  halves_interleaved,    // an all_gather's blocks of the lower and of the upper half take turns
  gathered,              // an all_reduce becomes an all_gather of each rank's first n-th
  summed,                // an all_gather becomes an all_reduce, so that each block is the sum of all
  skipped_without_rows,  // a rank that receives no row of an uneven exchange does not make the call
};

struct FaultyCall {
  std::string site;
  CallFault fault;
  std::string group = "tp";  // the kind of group that has the fault
  std::int64_t full = -1;    // the number of elements for left_out_where_full
};

/// The groups of a rank, one of which has the fault.
class FaultyGroups : public sim::Groups {
 public:
  FaultyGroups(sim::Rank& rank, FaultyCall fault);
  ~FaultyGroups() override;
  sim::Communicator& world() override { return real_.world(); }
  sim::Communicator& get(std::string_view kind) override;
  sim::Communicator* find(std::string_view kind) override {
    return kind == kind_ && faulty_ != nullptr ? faulty_.get() : real_.find(kind);
  }
  sim::Communicator* new_group(std::string name, const std::vector<int>& members, sim::Site site) override {
    return real_.new_group(std::move(name), members, site);
  }

 private:
  sim::Groups& real_;
  std::string kind_;
  std::unique_ptr<sim::Communicator> faulty_;
};

}  // namespace test
