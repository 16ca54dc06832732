#pragma once

/// Communicators that do something else at one call site, to plant what layers get wrong: a collective
/// that is left out, doubled, of another kind, or over the wrong ranks.
///
/// Calls   All ranks make the wrong call together, so the world runs on and only the values are wrong. The
///         exceptions are skipped_by_one, skipped_without_rows and sent_to_the_source.

#include <map>
#include <memory>
#include <string>

#include "sim/comm/rank.h"

namespace test {

enum class CallFault {
  left_out,              // the result is this rank's own part of the input
  left_out_where_full,   // left_out, but only in calls of `full` elements
  doubled,               // a sum is reduced twice
  averaged,              // the sum is divided by the number of members
  maximum,               // the maximum in place of the sum
  over_half,             // the sum over only the lower or the upper half of the group
  without_last,          // the sum without the last member's term
  of_next_rank,          // each rank gets the block of the rank after it
  halves_interleaved,    // an all_gather's blocks of the lower and of the upper half take turns
  gathered,              // an all_reduce becomes an all_gather of each rank's first n-th
  summed,                // an all_gather becomes an all_reduce, so that each block is the sum of all
  skipped_by_one,        // rank 1 does not make the call
  skipped_without_rows,  // a rank that receives no row of an uneven exchange does not make the call
  zeroed,                // the call is not made, and its result is 0
  over_other_group,      // an all_reduce over the group of another kind
  to_other_neighbour,    // messages along a ring go the other way round
  sent_to_the_source,    // a message is sent to the rank from which one is received
  stale,  // the result of the call before at this site; the first call gives zeros or its own message
};

struct FaultyCall {
  std::string site;
  CallFault fault;
  std::string group = "tp";  // the kind of group that has the fault
  std::int64_t full = -1;    // the number of elements for left_out_where_full
  std::string other;         // the kind of group for over_other_group
};

/// The groups of a rank, where one kind of groups is taken for another one.
class ExchangedGroups : public sim::Groups {
 public:
  ExchangedGroups(sim::Rank& rank, std::string kind, std::string other)
      : real_(rank.groups), kind_(std::move(kind)), other_(std::move(other)) {}
  sim::Communicator& world() override { return real_.world(); }
  sim::Communicator& get(std::string_view kind) override { return real_.get(taken(kind)); }
  sim::Communicator* find(std::string_view kind) override { return real_.find(taken(kind)); }
  sim::Communicator* new_group(std::string name, const std::vector<int>& members, sim::Site site) override {
    return real_.new_group(std::move(name), members, site);
  }

 private:
  std::string_view taken(std::string_view kind) const { return kind == kind_ ? other_ : kind; }

  sim::Groups& real_;
  std::string kind_, other_;
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
