#include "verify/inspect/disagreements.h"

#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <functional>
#include <map>
#include <set>
#include <unordered_map>
#include <utility>

#include "sim/base/printable_text.h"
#include "verify/inspect/holding_call.h"
#include "verify/inspect/sentences.h"

namespace verify {

namespace {

/// What members have to agree on in a call.
struct Signature {
  std::string operation, dtype;
  std::int64_t elements = -1;  // -1: not compared
  auto operator<=>(const Signature&) const = default;
};

std::string dtype_of(const JobCall& call) {
  return std::string(input_dtypes(call.recording().text(call->dtypes)));
}

Signature signature_of(const JobCall& call) {
  const std::string& name = call.operation().name;
  Signature signature{.operation = name, .dtype = {}, .elements = -1};
  if (name != "scatter") signature.dtype = dtype_of(call);  // of which the root alone has an input
  if (name == "all_gather") {
    signature.elements = call.elements_out();
  } else if (name == "all_reduce" || name == "broadcast" || name == "reduce" || name == "reduce_scatter") {
    signature.elements = call.elements_in();
  }
  return signature;
}

std::string words_of_signature(const Signature& signature) {
  const std::string words = sim::printable_text(signature.operation.substr(0, 60));
  const std::string dtype = sim::printable_text(signature.dtype.substr(0, 60));
  const std::string of = signature.elements < 0 ? dtype
                         : dtype.empty()        ? fmt::format("{} elements", signature.elements)
                                                : fmt::format("{} x {}", signature.elements, dtype);
  return of.empty() ? words : fmt::format("{} of {}", words, of);
}

/// A call of a group. Calls that are coalesced have one sequence, and are distinguished by their order.
struct Key {
  std::uint32_t group = 0;
  std::uint32_t place = 0;
  std::int64_t sequence = 0;
  CollectiveId id() const { return {group, sequence}; }
  auto operator<=>(const Key&) const = default;
};

struct KeyHash {
  std::size_t operator()(const Key& key) const {
    std::uint64_t bits = static_cast<std::uint64_t>(key.sequence) * 0x9e3779b97f4a7c15U;
    bits ^= (std::uint64_t{key.group} << 20U ^ key.place) * 0xc2b2ae3d27d4eb4fU;
    return static_cast<std::size_t>(bits ^ bits >> 29U);
  }
};

/// Calls visit(key, call) for every collective of a dump in groups of several ranks.
template <typename Visit>
void for_each_collective(const Job& job, std::size_t dump, const Visit& visit) {
  std::vector<std::pair<std::int64_t, std::uint32_t>> last(job.groups_of[dump].size(), {-1, 0});
  for (const JobCall call : job.calls_of(dump)) {
    if (call->sequence < 0 || call.group().members.size() < 2 || !call.is_collective()) continue;
    auto& [sequence, place] = last[call->group];
    place = call->sequence == sequence ? place + 1 : 0;
    sequence = call->sequence;
    visit(Key{call.group_id(), place, call->sequence}, call);
  }
}

/// Returns the calls that have different signatures, sorted.
std::set<Key> differing_calls(const Job& job) {
  std::size_t calls = 0;
  for (const Recording& recording : job.recordings) calls += recording.calls.size();
  std::unordered_map<Key, std::uint32_t, KeyHash> first;  // the number of the signature that came first
  first.reserve(calls / 4);
  std::map<Signature, std::uint32_t> numbers;
  std::set<Key> differing;
  for (const std::size_t dump : job.dumps()) {
    std::map<std::array<std::uint32_t, 4>, std::uint32_t> by_ids;  // the numbers, by the ids of this dump
    for_each_collective(job, dump, [&](const Key& key, const JobCall& call) {
      const auto [known, is_new] = by_ids.try_emplace(
          {call->operation, call->dtypes, call->input_sizes, call->output_sizes}, numbers.size());
      if (is_new) known->second = numbers.try_emplace(signature_of(call), known->second).first->second;
      if (first.try_emplace(key, known->second).first->second != known->second) differing.insert(key);
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

class Collector {
 public:
  Collector(const Job& job, const Progresses& progresses, bool all)
      : job_(job), progresses_(progresses), all_(all) {}

  std::vector<Disagreement> collect() {
    add_collectives();
    for (const std::size_t dump : job_.dumps())
      for (const JobCall& call : progresses_.of(dump).front) add_message(call);
    return std::move(found_);
  }

 private:
  /// Adds the calls that differ: all, or the first of each group.
  void add_collectives() {
    std::set<Key> told;
    std::vector<bool> has_told(job_.groups.size());
    for (const Key& key : differing_calls(job_)) {
      if (told.size() == kMostDisagreements) break;
      if (all_ || !has_told[key.group]) told.insert(key);
      has_told[key.group] = true;
    }
    if (told.empty()) return;
    std::map<Key, std::map<Signature, std::vector<int>>> parties;
    for (const std::size_t dump : job_.dumps()) {
      for_each_collective(job_, dump, [&](const Key& key, const JobCall& call) {
        if (has_told[key.group] && told.contains(key))
          parties[key][signature_of(call)].push_back(call.rank());
      });
    }
    for (const auto& [key, ranks_by] : parties) add(key.id(), ranks_by);
  }

  void add(const CollectiveId& id, const std::map<Signature, std::vector<int>>& ranks_by) {
    Disagreement one{.group = id.group, .sequence = id.sequence, .what = what_differs(ranks_by)};
    for (const auto& [signature, ranks] : ranks_by)
      one.parties.push_back({words_of_signature(signature), ranks});
    std::ranges::stable_sort(one.parties, std::greater(),
                             [](const auto& party) { return party.ranks.size(); });
    one.holds_ranks =
        std::ranges::any_of(job_.dumps(), [&](std::size_t dump) { return progresses_.is_pending(dump, id); });
    found_.push_back(std::move(one));
  }

  /// Compares a message that a rank receives with the other half, where both are pending.
  void add_message(const JobCall& call) {
    if (call.operation().kind != Operation::Kind::recv || found_.size() == kMostDisagreements) return;
    const auto sender = call.peer() < 0 ? std::nullopt : job_.dump_of(call.peer());
    if (!sender) return;
    const std::vector<JobCall>& theirs = progresses_.of(*sender).front;
    const auto half =
        std::ranges::find_if(theirs, [&](const JobCall& one) { return one.is_other_half_of(call); });
    if (half == theirs.end()) return;
    const Signature in{"recv", dtype_of(call), call.elements_out()};
    const Signature out{"send", dtype_of(*half), half->elements_in()};
    if (in.dtype == out.dtype && in.elements == out.elements) return;
    found_.push_back(
        {.group = call.group_id(),
         .sequence = call->p2p_sequence,
         .what = in.dtype == out.dtype ? "size" : "dtype",
         .parties = {{words_of_signature(out), {half->rank()}}, {words_of_signature(in), {call.rank()}}},
         .holds_ranks = true,
         .is_message = true});
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
    parties.push_back(sentence("party_makes", {{"ranks", party.ranks}, {"call", party.call}}));
  return sentence(one.is_message ? "halves_differ" : "calls_differ",
                  {{"group", group_words(job.groups[one.group])},
                   {"sequence", one.sequence},
                   {"what", one.what},
                   {"call", one.parties.front().call},
                   {"parties", fmt::format("{}", fmt::join(parties, ", "))}});
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
