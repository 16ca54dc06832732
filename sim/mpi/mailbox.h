#pragma once

/// The letters that have come to this process, kept until the call that they are for asks for them.
///
/// Calls   what waits takes all off the wire meanwhile, whatever it is for: so no process waits because
///         another is busy with another group. It waits at most until the deadline.
/// Errors  rank_silent: ranks did not come to a call by the deadline; left_early: a rank's program has ended
///         before; letter_astray: what came is for another rank.

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
  /// Waits for a letter for each key; `waiting` says who waits in which call. `meanwhile` is done whenever
  /// letters may have come.
  std::vector<Letter> take(
      const std::vector<LetterKey>& keys, const std::string& waiting,
      const std::function<void()>& meanwhile = [] {});
  /// Waits until `missing` gives none of the ranks that are waited for.
  void wait_until(const std::function<std::vector<int>()>& missing, const std::string& waiting);
  /// Whose letters have not come, of programs that go on.
  std::vector<int> missing(const std::vector<LetterKey>& keys, const std::string& waiting) const;
  bool has(const std::vector<LetterKey>& keys) const;
  /// Letters that have come.
  std::vector<Letter> take_out(const std::vector<LetterKey>& keys);
  bool has_ended(std::uint32_t run, int rank) const { return ended_.contains({run, rank}); }
  /// Waits for the ends of all others' programs; what is left of this run then.
  std::vector<Letter> take_rest(std::uint32_t run, int own_rank, const std::string& waiting);

 private:
  bool receive();

  Wire& wire_;
  std::chrono::milliseconds deadline_;
  std::map<LetterKey, Letter> letters_;
  std::set<std::pair<std::uint32_t, int>> ended_;  // run, rank
};

}  // namespace sim
