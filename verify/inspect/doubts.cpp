#include "verify/inspect/doubts.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <fmt/format.h>
#include <iterator>
#include <utility>

#include "verify/inspect/holding_call.h"
#include "verify/output/phrases.h"

namespace verify {

namespace {

class DoubtWriter {
 public:
  DoubtWriter(const Inspection& found, const VerdictFacts& facts) : found_(found), facts_(facts) {}

  std::string write() {
    doubt_hosts();
    doubt_hosts_of_gloo();
    doubt_devices();
    doubt_absent();
    add_others_without_dump();
    add_unknown();
    return std::move(text_);
  }

 private:
  const Job& job() const { return found_.job; }

  /// Hosts that stopped keep all others waiting, sooner or later. Where more ranks have no pending call than
  /// wait in one, and they are no suspects, those that wait may be the ones that went on.
  void doubt_hosts() {
    if (ranks_of_kind(found_.suspects, SuspectKind::host).empty()) return;
    const std::vector<int>& held = found_.waiting.held;
    const std::vector<HoldingCall>& calls = found_.waiting.calls;
    if (job().world_size == 2 && held.size() == 1 && !calls.empty() && calls.front().awaits()) {
      text_ += fmt::format(
          " With two ranks the dumps do not tell whether rank {} has made a call that rank {} is not meant "
          "to make: compare what they did after their last common call.",
          held.front(), found_.suspects.front().rank);
      return;
    }
    std::vector<int> idle;
    std::ranges::copy_if(found_.waiting.idle, std::back_inserter(idle), [&](int rank) {
      return std::ranges::find(found_.suspects, rank, &Suspect::rank) == found_.suspects.end();
    });
    if (idle.size() > held.size()) {
      text_ += fmt::format(
          " But {} {} no pending call either. If {} in something that is not recorded (gloo, a store, a "
          "file), {} may have gone on without them.",
          ranks_words(idle), verb(idle, "has", "have"), verb(idle, "it waits", "they wait"),
          ranks_words(held));
      return;
    }
    const std::int64_t others =
        job().world_size - std::ssize(found_.suspects) - found_.waiting.waiting_ranks - std::ssize(idle);
    if (others <= 0 || !knows_all()) return;
    text_ += fmt::format(
        " But {} with pending calls {} not wait for {}: the dumps may have been written while the job ran.",
        counted(others, "other rank"), others == 1 ? "does" : "do",
        found_.suspects.size() == 1 ? "it" : "them");
  }

  /// Where no message of Gloo is recorded, a rank may wait in one.
  void doubt_hosts_of_gloo() {
    const std::vector<int> hosts = ranks_of_kind(found_.suspects, SuspectKind::host);
    if (hosts.empty() || !are_calls_of_gloo_alone()) return;
    text_ += fmt::format(" But the recorder has no sends and receives of Gloo: {} may wait in one.",
                         ranks_words(hosts));
  }

  bool are_calls_of_gloo_alone() const {
    for (std::size_t dump = 0; dump < job().recordings.size(); ++dump) {
      for (const RecordedCall& call : job().recordings[dump].calls) {
        const Operation& operation = job().operation(dump, call);
        if (operation.backend != "gloo" || operation.is_message()) return false;
      }
    }
    return true;
  }

  /// Where nobody waits for a rank whose device is behind, its dump may be early: of two ranks, where the
  /// other one has no pending call.
  void doubt_devices() {
    const std::vector<int>& idle = found_.waiting.idle;
    const std::vector<int> behind = ranks_of_kind(found_.suspects, SuspectKind::device);
    const bool are_all = behind.size() == found_.suspects.size();
    if (job().world_size == 2) {
      if (idle.size() == 1 && behind.size() == 1 && behind != idle)
        text_ += fmt::format(
            " With two ranks it is as consistent with a dump of rank {} that was written before that of rank "
            "{}.",
            behind.front(), idle.front());
    } else if (are_all && !behind.empty() && found_.waiting.waiting_ranks == 0) {
      text_ += fmt::format(
          " But nobody waits for {}: it is as consistent with {} that {} written before those of the others.",
          ranks_words(behind), verb(behind, "a dump", "dumps"), verb(behind, "was", "were"));
    }
  }

  /// Where most ranks with dumps have no pending call, a rank without a dump may not keep them waiting.
  void doubt_absent() {
    if (ranks_of_kind(found_.suspects, SuspectKind::absent).size() < found_.suspects.size()) return;
    const std::vector<int>& idle = found_.waiting.idle;
    if (idle.size() <= found_.waiting.held.size()) return;
    text_ += fmt::format(
        " But {} {} no pending call: the dumps may have been written while the job ran, or {} in something "
        "that is not recorded (gloo, a store, a file).",
        ranks_words(idle), verb(idle, "has", "have"), verb(idle, "it waits", "they wait"));
  }

  /// Whether every rank has a dump that has all that is pending.
  bool knows_all() const {
    return std::ssize(job().recordings) == job().world_size && found_.waiting.lost.empty() &&
           facts_.early.ranks.empty() && std::ranges::none_of(job().recordings, &Recording::is_truncated);
  }

  /// Ranks without a dump for which nobody with a dump waits may be those for which the suspects wait, as
  /// where a node is gone.
  void add_others_without_dump() {
    const std::vector<int> suspects = ranks_of_kind(found_.suspects, SuspectKind::absent);
    if (suspects.empty() || suspects.size() < found_.suspects.size()) return;
    std::vector<int> others = job().ranks_without_dump();
    std::erase_if(others, [&](int rank) { return std::ranges::find(suspects, rank) != suspects.end(); });
    if (others.empty()) return;
    text_ += fmt::format(" But {} {} no dump either, and {} may wait for {}.", ranks_words(others),
                         verb(others, "has", "have"), ranks_words(suspects), verb(others, "it", "them"));
  }

  void add_unknown() {
    const std::vector<int>& unknown = found_.waiting.suspects.unknown;
    if (unknown.empty()) return;
    text_ += fmt::format(" {} {} no whole dump, and others wait for {}: {} may wait, too, or have stopped.",
                         capital(ranks_words(unknown)), verb(unknown, "has", "have"),
                         verb(unknown, "it", "them"), verb(unknown, "it", "they"));
  }

  const Inspection& found_;
  const VerdictFacts& facts_;
  std::string text_;
};

}  // namespace

std::vector<int> ranks_of_kind(const std::vector<Suspect>& suspects, SuspectKind kind) {
  std::vector<int> ranks;
  for (const Suspect& suspect : suspects) {
    if (suspect.kind == kind) ranks.push_back(suspect.rank);
  }
  return ranks;
}

std::string words_of_doubts(const Inspection& found, const VerdictFacts& facts) {
  return DoubtWriter(found, facts).write();
}

}  // namespace verify
