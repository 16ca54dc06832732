#pragma once

/// The letters that have come to this process, kept until the call that they are for asks for them.
///
/// Calls   take() waits: for as long as letters come that are for others, and at most until the deadline. All that comes is taken off the
///         wire meanwhile, whatever it is for: so no process waits because another is busy with another group.
/// Errors  rank_silent: ranks did not come to a call by the deadline; left_early: a rank's program has ended before;
///         letter_astray: what came is for another rank.

#include <chrono>
#include <map>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "sim/cluster/letter.h"
#include "sim/cluster/wire.h"

namespace sim {

class Mailbox {
 public:
  Mailbox(Wire& wire, std::chrono::milliseconds deadline) : wire_(wire), deadline_(deadline) {}

  void send(int to, Letter letter) {
    letter.to = to;
    wire_.send(to, encoded_letter(letter));
  }
  /// A letter for each key; `waiting` says who waits in which call.
  std::vector<Letter> take(const std::vector<LetterKey>& keys, const std::string& waiting);
  /// Waits for the ends of all others' programs; what is left of this run then.
  std::vector<Letter> take_rest(std::uint32_t run, int own_rank, const std::string& waiting);

 private:
  template <typename IsDone>
  void wait_until(const IsDone& is_done, const std::string& waiting);
  bool receive();

  Wire& wire_;
  std::chrono::milliseconds deadline_;
  std::map<LetterKey, Letter> letters_;
  std::set<std::pair<std::uint32_t, int>> ended_;  // run, rank
};

}  // namespace sim
