#include "sim/mpi/mailbox.h"

#include <algorithm>
#include <fmt/format.h>
#include <optional>
#include <thread>

#include "sim/base/check.h"
#include "sim/base/deadline.h"
#include "sim/base/error.h"
#include "sim/comm/process_group.h"

namespace sim {

namespace {

/// Waits longer with each rest, so that processes that share a core can proceed.
class Patience {
 public:
  void rest() {
    constexpr int kYields = 200;
    constexpr std::chrono::microseconds kFirst{50};
    constexpr std::chrono::microseconds kLongest{1000};
    if (++rests_ < kYields) {
      std::this_thread::yield();
      return;
    }
    std::this_thread::sleep_for(std::min(kFirst * (rests_ - kYields + 1), kLongest));
  }
  void reset() { rests_ = 0; }

 private:
  int rests_ = 0;
};

}  // namespace

bool Mailbox::receive() {
  std::optional<Arrival> arrival = wire_.receive();
  if (!arrival) return false;
  Letter letter = decoded_letter(arrival->letter, arrival->from);
  if (letter.to != wire_.rank()) {
    refuse({.code = "letter_astray",
            .option = fmt::format("call {} of {}, {} '{}'", letter.key.sequence, letter.key.group,
                                  name_of(letter.operation), letter.site),
            .numbers = fmt::format("a message of rank {} for rank {} came to rank {}", arrival->from,
                                   letter.to, wire_.rank()),
            .rule = "a message comes to the rank to which it is sent",
            .hint = "check how processes are numbered: use one launcher and one communicator"});
  }
  if (letter.key.kind == LetterKind::ended) {
    ended_.emplace(letter.key.run, arrival->from);
    return true;
  }
  LetterKey key = letter.key;
  const bool is_new = letters_.emplace(std::move(key), std::move(letter)).second;
  SIM_CHECK(is_new);
  return true;
}

void Mailbox::wait_until(const std::function<std::vector<int>()>& missing, const std::string& waiting) {
  Patience patience;
  std::optional<Deadline> deadline;
  for (;;) {
    while (receive()) patience.reset();
    const std::vector<int> ranks = missing();
    if (ranks.empty()) return;
    if (!deadline) deadline = Deadline::after(deadline_);
    if (deadline->has_passed()) {
      refuse({.code = "rank_silent",
              .option = waiting,
              .numbers = fmt::format("waited {} for {}", text_of(deadline_), text_of_ranks(ranks)),
              .rule = "all members of a call make it within the deadline",
              .hint = "look at what those ranks wrote last and where they wait; on slow machines set a "
                      "longer --deadline"});
    }
    patience.rest();
  }
}

std::vector<Letter> Mailbox::take(const std::vector<LetterKey>& keys, const std::string& waiting) {
  wait_until([&] { return missing(keys, waiting); }, waiting);
  std::vector<Letter> taken;
  taken.reserve(keys.size());
  for (const LetterKey& key : keys) taken.push_back(std::move(letters_.extract(key).mapped()));
  return taken;
}

/// Returns the ranks whose letters have not arrived. It refuses if the program of such a rank has ended.
std::vector<int> Mailbox::missing(const std::vector<LetterKey>& keys, const std::string& waiting) const {
  std::vector<int> missing, gone;
  for (const LetterKey& key : keys) {
    if (letters_.contains(key)) continue;
    missing.push_back(key.from);
    if (ended_.contains({key.run, key.from})) gone.push_back(key.from);
  }
  if (gone.empty()) return missing;
  refuse({.code = "left_early",
          .option = waiting,
          .numbers = fmt::format("the program of {} has ended without making this call", text_of_ranks(gone)),
          .rule = "every member of a group makes the same calls in the same order",
          .hint = "look for a call that those ranks skip"});
}

std::vector<Letter> Mailbox::take_rest(std::uint32_t run, int own_rank, const std::string& waiting) {
  wait_until(
      [&] {
        std::vector<int> missing;
        for (int rank = 0; rank < wire_.size(); ++rank) {
          if (rank != own_rank && !ended_.contains({run, rank})) missing.push_back(rank);
        }
        return missing;
      },
      waiting);
  std::vector<Letter> rest;
  for (auto letter = letters_.begin(); letter != letters_.end();) {
    const bool is_of_run = letter->first.run == run;
    if (is_of_run) rest.push_back(std::move(letter->second));
    letter = is_of_run ? letters_.erase(letter) : std::next(letter);
  }
  return rest;
}

}  // namespace sim
