#include "verify/inspect/disagreements.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <functional>
#include <map>
#include <set>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "sim/base/printable_text.h"
#include "verify/inspect/holding_call.h"
#include "verify/output/phrases.h"

namespace verify {

namespace {

/// What members have to agree on in a call.
struct Signature {
  std::string operation, dtype;
  std::int64_t elements = -1;  // -1: not compared
  auto operator<=>(const Signature&) const = default;
};

Signature signature_of(const Job& job, std::size_t dump, const RecordedCall& call) {
  const Recording& recording = job.recordings[dump];
  const Operation& operation = job.operation(dump, call);
  const std::string& name = operation.name;
  Signature signature{.operation = name, .dtype = {}, .elements = -1};
  if (name != "scatter")  // of which the root alone has an input
    signature.dtype = std::string(input_dtypes(recording.text(call.dtypes)));
  if (name == "all_gather") {
    signature.elements = recording.sizes[call.output_sizes].elements;
  } else if (name == "all_reduce" || name == "broadcast" || name == "reduce" || name == "reduce_scatter") {
    signature.elements = recording.sizes[call.input_sizes].elements;
  }
  return signature;
}

std::string words_of_signature(const Signature& signature) {
  std::string words = sim::printable_text(signature.operation.substr(0, 60));
  const std::string dtype = sim::printable_text(signature.dtype.substr(0, 60));
  if (signature.elements >= 0 && !dtype.empty())
    return fmt::format("{} of {} x {}", words, signature.elements, dtype);
  if (signature.elements >= 0) return fmt::format("{} of {} elements", words, signature.elements);
  return dtype.empty() ? words : fmt::format("{} of {}", words, dtype);
}

/// A call of a group. Calls that are coalesced have one sequence, and are told apart by their order.
struct Key {
  std::uint32_t group = 0;
  std::uint32_t place = 0;
  std::int64_t sequence = 0;
  auto operator<=>(const Key&) const = default;
};

struct KeyHash {
  std::size_t operator()(const Key& key) const {
    std::uint64_t bits = static_cast<std::uint64_t>(key.sequence) * 0x9e3779b97f4a7c15U;
    bits ^= (std::uint64_t{key.group} << 20U ^ key.place) * 0xc2b2ae3d27d4eb4fU;
    return static_cast<std::size_t>(bits ^ bits >> 29U);
  }
};

/// Gives every different signature a number, for all dumps.
class SignatureNumbers {
 public:
  explicit SignatureNumbers(const Job& job) : job_(job) {}

  void begin_dump() { of_dump_.clear(); }

  std::uint32_t of(std::size_t dump, const RecordedCall& call) {
    const auto ids = std::tuple(call.operation, call.dtypes, call.input_sizes, call.output_sizes);
    if (ids == last_ids_ && dump == last_dump_) return last_;
    const Key key{std::get<0>(ids), std::get<1>(ids),
                  static_cast<std::int64_t>(std::uint64_t{std::get<2>(ids)} << 32U | std::get<3>(ids))};
    const auto [known, is_new] = of_dump_.try_emplace(key, 0);
    if (is_new) {
      const auto next = static_cast<std::uint32_t>(numbers_.size());
      known->second = numbers_.try_emplace(signature_of(job_, dump, call), next).first->second;
    }
    last_ids_ = ids;
    last_dump_ = dump;
    return last_ = known->second;
  }

 private:
  const Job& job_;
  std::map<Signature, std::uint32_t> numbers_;
  std::unordered_map<Key, std::uint32_t, KeyHash> of_dump_;  // by the ids of one dump
  std::tuple<std::uint32_t, std::uint32_t, std::uint32_t, std::uint32_t> last_ids_;
  std::size_t last_dump_ = ~std::size_t{0};
  std::uint32_t last_ = 0;
};

/// Calls visit(key, call) for every collective of a dump in groups of several ranks.
template <typename Visit>
void for_each_collective(const Job& job, std::size_t dump, const Visit& visit) {
  std::vector<std::pair<std::int64_t, std::uint32_t>> last(job.groups_of[dump].size(), {-1, 0});
  for (const RecordedCall& call : job.recordings[dump].calls) {
    const std::uint32_t group = job.group_of(dump, call);
    if (call.is_p2p || call.sequence < 0 || job.groups[group].members.size() < 2) continue;
    if (job.operation(dump, call).is_message()) continue;
    auto& [sequence, place] = last[call.group];
    place = call.sequence == sequence ? place + 1 : 0;
    sequence = call.sequence;
    visit(Key{group, place, call.sequence}, call);
  }
}

/// Returns the calls that have different signatures, sorted.
std::set<Key> differing_calls(const Job& job) {
  std::size_t calls = 0;
  for (const Recording& recording : job.recordings) calls += recording.calls.size();
  std::unordered_map<Key, std::uint32_t, KeyHash> first;  // the number of the signature that came first
  first.reserve(calls / 4);
  std::set<Key> differing;
  SignatureNumbers numbers(job);
  for (std::size_t dump = 0; dump < job.recordings.size(); ++dump) {
    numbers.begin_dump();
    for_each_collective(job, dump, [&](const Key& key, const RecordedCall& call) {
      const std::uint32_t number = numbers.of(dump, call);
      if (first.try_emplace(key, number).first->second != number) differing.insert(key);
    });
  }
  return differing;
}

/// Returns what is different, in the order in which it matters.
std::string what_differs(const std::map<Signature, std::vector<int>>& parties) {
  const Signature& first = parties.begin()->first;
  const auto all_same = [&](auto member) {
    return std::ranges::all_of(parties,
                               [&](const auto& party) { return party.first.*member == first.*member; });
  };
  if (!all_same(&Signature::operation)) return "operation";
  return all_same(&Signature::dtype) ? "size" : "dtype";
}

/// Makes a disagreement of its parties, the largest first. `words` says what the ranks of a party have in
/// common.
template <typename Common, typename Words>
Disagreement disagreement_of(const std::map<Common, std::vector<int>>& parties, std::string what,
                             const Words& words) {
  Disagreement disagreement;
  disagreement.what = std::move(what);
  for (const auto& [common, ranks] : parties) disagreement.parties.push_back({words(common), ranks});
  std::ranges::stable_sort(disagreement.parties, std::greater(),
                           [](const auto& party) { return party.ranks.size(); });
  return disagreement;
}

class Collector {
 public:
  Collector(const Job& job, const Progresses& progresses, bool all)
      : job_(job), progresses_(progresses), all_(all) {}

  std::vector<Disagreement> collect() {
    add_collectives();
    for (std::size_t dump = 0; dump < job_.recordings.size(); ++dump) add_messages(dump);
    add_parts();
    add_splits();
    return std::move(found_);
  }

 private:
  using Parties = std::map<Signature, std::vector<int>>;

  /// The calls that are told: all, or the first of each group.
  std::map<Key, Parties> told_calls() const {
    std::map<Key, Parties> told;
    for (const Key& key : differing_calls(job_)) {
      if (told.size() == kMostDisagreements) break;
      if (all_ || told.empty() || told.rbegin()->first.group != key.group) told[key];
    }
    return told;
  }

  void add_collectives() {
    std::map<Key, Parties> told = told_calls();
    if (told.empty()) return;
    std::vector<bool> has_told(job_.groups.size());
    for (const auto& [key, parties] : told) has_told[key.group] = true;
    for (std::size_t dump = 0; dump < job_.recordings.size(); ++dump) {
      for_each_collective(job_, dump, [&](const Key& key, const RecordedCall& call) {
        const auto found = has_told[key.group] ? told.find(key) : told.end();
        if (found != told.end())
          found->second[signature_of(job_, dump, call)].push_back(job_.recordings[dump].rank);
      });
    }
    for (const auto& [key, parties] : told) {
      Disagreement disagreement = disagreement_of(parties, what_differs(parties), words_of_signature);
      disagreement.group = key.group;
      disagreement.sequence = key.sequence;
      disagreement.holds_ranks = is_pending({key.group, key.sequence});
      found_.push_back(std::move(disagreement));
    }
  }

  /// Calls visit(call, count) for the collectives of a dump that are among these, with the numbers of their
  /// parts. A dump may have lost parts of its first call, and of its last one where the file was cut.
  template <typename Visit>
  void for_each_count(std::size_t dump, const std::set<CollectiveId>& among, const Visit& visit) const {
    const Recording& recording = job_.recordings[dump];
    std::map<CollectiveId, std::uint32_t> parts;
    for_each_collective(job_, dump, [&](const Key& key, const RecordedCall& call) {
      const CollectiveId id{key.group, key.sequence};
      if (!among.contains(id)) return;
      const bool may_be_cut = (&call == &recording.calls.front() && call.record_id != 0) ||
                              (&call == &recording.calls.back() && recording.is_truncated);
      const auto [known, is_new] = parts.try_emplace(id, 0);
      known->second = may_be_cut || (!is_new && known->second == 0) ? 0 : key.place + 1;
    });
    for (const auto& [id, count] : parts)
      if (count > 0) visit(id, count);
  }

  /// Compares how many calls are coalesced into one.
  void add_parts() {
    std::set<CollectiveId> coalesced, differing, told;
    for (std::size_t dump = 0; dump < job_.recordings.size(); ++dump) {
      for_each_collective(job_, dump, [&](const Key& key, const RecordedCall&) {
        if (key.place > 0) coalesced.insert({key.group, key.sequence});
      });
    }
    if (coalesced.empty()) return;
    std::map<CollectiveId, std::uint32_t> first;
    for (std::size_t dump = 0; dump < job_.recordings.size(); ++dump) {
      for_each_count(dump, coalesced, [&](const CollectiveId& id, std::uint32_t count) {
        if (first.try_emplace(id, count).first->second != count) differing.insert(id);
      });
    }
    for (const CollectiveId& id : differing) {
      if (found_.size() + told.size() >= kMostDisagreements) break;
      if (all_ || told.empty() || told.rbegin()->group != id.group) told.insert(id);
    }
    if (told.empty()) return;
    std::map<CollectiveId, std::map<std::uint32_t, std::vector<int>>> ranks;  // by their numbers of parts
    for (std::size_t dump = 0; dump < job_.recordings.size(); ++dump) {
      for_each_count(dump, told, [&](const CollectiveId& id, std::uint32_t count) {
        ranks[id][count].push_back(job_.recordings[dump].rank);
      });
    }
    for (const auto& [id, by_count] : ranks) found_.push_back(of_parts(id, by_count));
  }

  Disagreement of_parts(const CollectiveId& id,
                        const std::map<std::uint32_t, std::vector<int>>& by_count) const {
    Disagreement disagreement = disagreement_of(by_count, "parts", [](std::uint32_t count) {
      return count == 1 ? "one call" : fmt::format("{} calls that are coalesced", count);
    });
    disagreement.group = id.group;
    disagreement.sequence = id.sequence;
    disagreement.holds_ranks = is_pending(id);
    return disagreement;
  }

  /// What the members of an all_to_all send and expect.
  struct Exchange {
    std::int64_t sent = 0, expected = 0;
    std::string dtypes;
    std::vector<int> ranks;
    bool is_comparable = true, is_pending = false;
  };

  std::map<CollectiveId, Exchange> exchanges() const {
    std::map<CollectiveId, Exchange> found;
    for (std::size_t dump = 0; dump < job_.recordings.size(); ++dump) {
      for (const RecordedCall& call : job_.recordings[dump].calls) {
        if (!job_.is_collective(dump, call) || job_.operation(dump, call).name != "all_to_all") continue;
        add_exchange(dump, call, found[{job_.group_of(dump, call), call.sequence}]);
      }
    }
    std::erase_if(found, [&](const auto& one) {
      return !one.second.is_comparable ||
             one.second.ranks.size() != job_.groups[one.first.group].members.size();
    });
    return found;
  }

  /// Finds pending calls of all_to_all in which the members send more or less in all than they expect. Calls
  /// that have completed must show that the sizes are those of what is sent, and not of larger buffers.
  void add_splits() {
    const std::map<CollectiveId, Exchange> all = exchanges();
    std::int64_t completed = 0;
    for (const auto& [id, one] : all) {
      if (one.is_pending) continue;
      if (one.sent != one.expected) return;
      ++completed;
    }
    if (completed == 0) return;
    for (const auto& [id, one] : all) {
      if (found_.size() == kMostDisagreements) return;
      if (!one.is_pending || one.sent == one.expected) continue;
      Disagreement disagreement;
      disagreement.group = id.group;
      disagreement.sequence = id.sequence;
      disagreement.what = "splits";
      disagreement.parties = {
          {fmt::format("all_to_all that sends {} elements in all and expects {}", one.sent, one.expected),
           one.ranks}};
      std::ranges::sort(disagreement.parties.front().ranks);
      disagreement.holds_ranks = true;
      found_.push_back(std::move(disagreement));
    }
  }

  void add_exchange(std::size_t dump, const RecordedCall& call, Exchange& exchange) const {
    const Recording& recording = job_.recordings[dump];
    const std::int64_t sent = recording.sizes[call.input_sizes].elements;
    const std::int64_t expected = recording.sizes[call.output_sizes].elements;
    if (exchange.ranks.empty()) exchange.dtypes = recording.text(call.dtypes);
    constexpr std::size_t kLongText = 4000;  // of sizes: longer ones are cut (recorded_fields.cpp)
    const bool is_cut = recording.text(recording.sizes[call.input_sizes].text).size() > kLongText ||
                        recording.text(recording.sizes[call.output_sizes].text).size() > kLongText;
    const bool is_second_part = !exchange.ranks.empty() && exchange.ranks.back() == recording.rank;
    exchange.is_comparable = exchange.is_comparable && !is_second_part && !is_cut && sent >= 0 &&
                             expected >= 0 && exchange.dtypes == recording.text(call.dtypes) &&
                             !__builtin_add_overflow(exchange.sent, sent, &exchange.sent) &&
                             !__builtin_add_overflow(exchange.expected, expected, &exchange.expected);
    exchange.is_pending = exchange.is_pending || call.state != CallState::completed;
    exchange.ranks.push_back(recording.rank);
  }

  /// Whether a call is pending on a rank.
  bool is_pending(const CollectiveId& id) const {
    for (std::size_t dump = 0; dump < job_.recordings.size(); ++dump)
      if (progresses_.is_pending(dump, id)) return true;
    return false;
  }

  /// Compares the messages that a rank receives with the other halves, where both are pending.
  void add_messages(std::size_t dump) {
    for (const std::uint32_t index : progresses_.of(dump).front) {
      const RecordedCall& call = job_.recordings[dump].calls[index];
      const Operation& operation = job_.operation(dump, call);
      if (operation.kind != Operation::Kind::recv || found_.size() == kMostDisagreements) continue;
      const int peer = job_.groups[job_.group_of(dump, call)].rank_at(operation.from);
      const int other = peer < 0 ? -1 : job_.dump_of_rank[static_cast<std::size_t>(peer)];
      if (other >= 0) compare_halves(dump, call, static_cast<std::size_t>(other));
    }
  }

  void compare_halves(std::size_t dump, const RecordedCall& call, std::size_t sender) {
    const Operation& operation = job_.operation(dump, call);
    for (const std::uint32_t index : progresses_.of(sender).front) {
      const RecordedCall& sent = job_.recordings[sender].calls[index];
      const Operation& theirs = job_.operation(sender, sent);
      if (job_.group_of(sender, sent) != job_.group_of(dump, call) || theirs.kind != Operation::Kind::send ||
          theirs.from != operation.from || theirs.to != operation.to)
        continue;
      const Signature in{"recv", std::string(input_dtypes(job_.recordings[dump].text(call.dtypes))),
                         job_.recordings[dump].sizes[call.output_sizes].elements};
      const Signature out{"send", std::string(input_dtypes(job_.recordings[sender].text(sent.dtypes))),
                          job_.recordings[sender].sizes[sent.input_sizes].elements};
      if (in.dtype == out.dtype && in.elements == out.elements) return;
      Disagreement disagreement;
      disagreement.group = job_.group_of(dump, call);
      disagreement.sequence = call.p2p_sequence;
      disagreement.what = in.dtype == out.dtype ? "size" : "dtype";
      disagreement.parties = {{words_of_signature(out), {job_.recordings[sender].rank}},
                              {words_of_signature(in), {job_.recordings[dump].rank}}};
      disagreement.holds_ranks = disagreement.is_message = true;
      found_.push_back(std::move(disagreement));
      return;
    }
  }

  const Job& job_;
  const Progresses& progresses_;
  bool all_;
  std::vector<Disagreement> found_;
};

}  // namespace

std::string_view input_dtypes(std::string_view dtypes) { return dtypes.substr(0, dtypes.find(" > ")); }

std::string disagreement_words(const Job& job, const Disagreement& one) {
  std::vector<std::string> parties;
  for (const Disagreement::Party& party : one.parties)
    parties.push_back(fmt::format("{} {} {}", ranks_words(party.ranks),
                                  party.ranks.size() == 1 ? "makes" : "make", party.call));
  const JobGroup& group = job.groups[one.group];
  if (one.what == "splits")
    return fmt::format("The members of {} make call {} as an {}: the splits of two of them do not fit.",
                       group_words(group), one.sequence, one.parties.front().call);
  if (one.is_message)
    return fmt::format("The halves of a message in {} differ in {}: {}.", group_words(group), one.what,
                       fmt::join(parties, ", "));
  return fmt::format("Call {} of {} differs in {}: {}.", one.sequence, group_words(group), one.what,
                     fmt::join(parties, ", "));
}

std::vector<int> Disagreement::odd_ranks() const {
  std::vector<int> ranks;
  for (std::size_t i = has_majority() ? 1 : 0; i < parties.size(); ++i)
    ranks.insert(ranks.end(), parties[i].ranks.begin(), parties[i].ranks.end());
  std::ranges::sort(ranks);
  return ranks;
}

std::vector<Disagreement> disagreements_of(const Job& job, const Progresses& progresses, bool all) {
  return Collector(job, progresses, all).collect();
}

}  // namespace verify
