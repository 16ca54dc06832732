#pragma once

/// The calls of a guest, made on the communicators of its rank, with tensors that lie in the segment.
///
/// Calls   wait() once for each call that start() has started; a batch counts as one call.
/// Errors  guest_request: a group or a call that there is not, a tensor that the operation takes and that
///         is missing, or a reduction of a dtype that is only moved; guest_memory (segment.h); those of
///         Communicator.

#include <cstddef>
#include <map>
#include <utility>
#include <vector>

#include "sim/comm/rank.h"
#include "sim/guest/guest_request.h"
#include "sim/guest/segment.h"

namespace sim {

class GuestCalls {
 public:
  GuestCalls(Rank& rank, int segment) : rank_(rank), segment_(segment), groups_{&rank.groups.world()} {}

  /// Starts a call or a batch, under a number that no other one has.
  void start(std::size_t number, const GuestRequest& request);
  void wait(std::size_t call);
  /// Makes a group. Returns its number, and this rank's place in it; -1 if it is no member.
  std::pair<std::size_t, int> new_group(const GuestRequest& request);
  Tensor tensor_of(const GuestTensor& tensor) { return segment_.tensor(rank_.device, tensor); }

 private:
  Communicator& group_of(std::size_t number) const;
  Work start_one(const GuestCall& call, const Site& site);
  Work start_batch(const GuestRequest& request);
  Tensor input_of(const GuestCall& call);
  Tensor output_of(const GuestCall& call);
  Tensor in_place(const GuestCall& call);
  void require_reducible(const GuestCall& call) const;
  [[noreturn]] void refuse_request(std::string numbers, const char* rule) const;

  Rank& rank_;
  Segment segment_;
  std::vector<Communicator*> groups_;  // null where this rank is no member
  std::map<std::size_t, Work> started_;
};

}  // namespace sim
