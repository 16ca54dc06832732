#pragma once

/// A communicator of a played NCCL. It matches what its members put in as NCCL does: the groups of each
/// member one after another, and the requests of one group all at once.
///
/// Shapes  A member is a place. Addresses in requests stay valid until their group is over.
/// Calls   One thread at a time calls it. put() and split() do everything that has then become possible.
/// Errors  none: requests that do not fit each other are never over, as NCCL may hang.

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "gpu/nccl/nccl_library.h"

namespace test {

/// What all communicators of one played NCCL have in common.
struct PlayedRules {
  bool folds_by_rank = false;  // the ring starts at place 0 for every element
  std::int64_t lonely = 0;     // the number of communicators of one member that were asked for
};

/// The bytes that a request reads and that it writes, on a communicator of `members` members. They are 0
/// where the request has no address.
std::size_t bytes_read(const gpu::NcclRequest& request, int members);
std::size_t bytes_written(const gpu::NcclRequest& request, int members);

class PlayedComm {
 public:
  PlayedComm(PlayedRules& rules, std::vector<int> ranks)
      : rules_(rules), ranks_(std::move(ranks)), members_(ranks_.size()) {}

  int size() const { return static_cast<int>(ranks_.size()); }
  int rank_at(std::size_t place) const { return ranks_[place]; }

  /// Puts in a group of requests. An empty group is never over.
  void put(std::size_t place, std::vector<gpu::NcclRequest> requests);
  /// The number of groups that a member put in, and the number of them that are over.
  std::int64_t groups_put(std::size_t place) const { return members_[place].put; }
  std::int64_t groups_over(std::size_t place) const { return members_[place].over; }

  /// Starts a split. Returns its number among the member's splits.
  std::size_t split(std::size_t place, int color, int key);
  bool is_splitting(std::size_t place) const { return members_[place].splits.size() > children_.size(); }
  /// The number of splits that are over for all members.
  std::size_t splits_over() const { return children_.size(); }
  struct Child {
    std::shared_ptr<PlayedComm> comm;  // null if the member had no color
    std::size_t place = 0;
  };
  const Child& child(std::size_t number, std::size_t place) const { return children_[number][place]; }

 private:
  /// The requests that a member put in together.
  struct Group {
    std::vector<gpu::NcclRequest> requests;
    std::vector<bool> is_done;
    bool is_over() const;
  };
  struct Member {
    std::deque<Group> waiting;
    std::int64_t put = 0;
    std::int64_t over = 0;
    std::vector<std::pair<int, int>> splits;  // (color, key)
  };

  bool all_split(std::size_t number) const;
  std::vector<Child> children_of(std::size_t number);
  std::optional<std::size_t> pending(std::size_t member, gpu::NcclOperation operation,
                                     std::size_t peer) const;
  static void pop(Member& member);
  void give(const std::vector<const gpu::NcclRequest*>& given, int place) const;
  bool run_collective();
  bool run_message();
  bool run_copies();

  PlayedRules& rules_;
  std::vector<int> ranks_;
  std::vector<Member> members_;
  std::vector<std::vector<Child>> children_;  // by split and member
};

}  // namespace test
