#pragma once

/// The mailbox of this process keeps the letters that have arrived until the calls that they are for take
/// them.
///
/// Calls   a wait takes all letters off the wire, whichever call they are for, so that no process waits
///         because another is busy with another group. It waits at most until the deadline.
/// Errors  rank_silent: ranks did not make a call by the deadline; left_early: the program of a rank has
///         ended without the call; letter_astray: a letter arrived that is for another rank.

#include <chrono>
#include <functional>
#include <map>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "sim/mpi/letter.h"
#include "sim/mpi/wire.h"

namespace sim {

class Mailbox {
 public:
  Mailbox(Wire& wire, std::chrono::milliseconds deadline) : wire_(wire), deadline_(deadline) {}

  void send(int to, Letter letter) {
    letter.to = to;
    wire_.send(to, encoded_letter(letter));
  }
  /// Waits for the letter of each key and returns them in the order of the keys. `waiting` says, for
  /// messages, which rank waits in which call.
  std::vector<Letter> take(const std::vector<LetterKey>& keys, const std::string& waiting);
  /// Waits until the programs of all other ranks have ended, and returns the letters of this run that nobody
  /// took.
  std::vector<Letter> take_rest(std::uint32_t run, int own_rank, const std::string& waiting);

 private:
  bool receive();
  /// Waits until `missing`, which returns the ranks that are still waited for, returns none.
  void wait_until(const std::function<std::vector<int>()>& missing, const std::string& waiting);
  std::vector<int> missing(const std::vector<LetterKey>& keys, const std::string& waiting) const;

  Wire& wire_;
  std::chrono::milliseconds deadline_;
  std::map<LetterKey, Letter> letters_;
  std::set<std::pair<std::uint32_t, int>> ended_;  // programs that have ended: run and rank
};

}  // namespace sim
