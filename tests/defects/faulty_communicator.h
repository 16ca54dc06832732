#pragma once

/// Communicators that do something else at one call site, for planting what layers get wrong: a collective
/// left out, doubled, of another kind, over the wrong ranks.
///
/// Calls   all ranks make the wrong call together, so that the world runs on and the values are wrong; but
///         for skipped_by_one.

#include <map>
#include <memory>
#include <string>

#include "sim/comm/rank.h"

namespace test {

enum class CallFault {
  left_out,             // the result is this rank's own part of the input
  left_out_where_full,  // of calls of so many elements
  doubled,              // a sum is reduced twice
  averaged,             // 1/n of the sum
  maximum,              // in place of the sum
  over_half,            // of the group: the ranks of the lower, or of the upper half
  without_last,         // the last member's term is not in it
  of_next_rank,         // each rank gets the block of the rank after it
  gathered,             // an all_reduce is an all_gather of each rank's first n-th
  summed,               // an all_gather is an all_reduce: each block is the sum of all
  skipped_by_one,       // rank 1 does not call
  stale,  // the result is that of the call before at this site; of the first, zeros, or the message that it is
};

struct FaultyCall {
  std::string site;
  CallFault fault;
  std::string group = "tp";  // the kind it is in
  std::int64_t full = -1;    // elements of left_out_where_full
};

/// The groups of a rank, with the fault in one of them.
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
