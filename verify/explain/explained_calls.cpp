#include "verify/explain/explained_calls.h"

#include <algorithm>
#include <fmt/format.h>
#include <optional>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "sim/comm/refused_call.h"
#include "verify/explain/wrong_tensor.h"
#include "verify/output/phrases.h"

namespace verify {

namespace {

/// A difference that occurs `times` times on each of these ranks.
struct RanksThatDiffer {
  std::string what;
  int times = 1;
  std::string where;                // its first place on the first rank
  bool is_everywhere_there = true;  // its first place is the same on all these ranks
  std::set<int> ranks;
};

/// What a rank had not called when the run ended may be a call that it leaves out, or one that it makes in
/// another order than the others; and what it calls too many may be one of those to come.
void allow_another_order(std::vector<CallDifference>& differences, std::span<const ExpectedCall> to_come) {
  for (CallDifference& difference : differences) {
    if (difference.what.ends_with(" is missing")) difference.what += " or made later";
    const bool is_to_come = std::ranges::any_of(to_come, [&](const ExpectedCall& call) {
      return difference.what == text_of(call) + " is one too many";
    });
    if (is_to_come) difference.what += " or comes too early";
  }
}

/// Counts equal differences of one rank as one.
std::vector<RanksThatDiffer> counted_differences(std::vector<CallDifference> differences, int rank) {
  std::vector<RanksThatDiffer> all;
  for (CallDifference& difference : differences) {
    const auto known = std::ranges::find(all, difference.what, &RanksThatDiffer::what);
    if (known == all.end()) {
      all.push_back(
          {.what = std::move(difference.what), .where = std::move(difference.where), .ranks = {rank}});
    } else {
      ++known->times;
    }
  }
  return all;
}

/// Returns "on ranks 0, 2: all_reduce 'mlp.forward' of 24 is missing, 3 times (after ...)". The place is that
/// of the first time.
std::string text_of(const RanksThatDiffer& one, std::size_t all_ranks) {
  const std::string times = one.times == 1 ? "" : fmt::format(", {} times", one.times);
  const std::string of_rank = one.is_everywhere_there ? "" : fmt::format("on rank {} ", *one.ranks.begin());
  return fmt::format("on {}: {}{} ({}{})", text_of_ranks(one.ranks, all_ranks), one.what, times, of_rank,
                     one.where);
}

/// At most this many differences are put into words: if one parameter differs, many calls of a step do.
constexpr std::size_t kMostPhrases = 4;

/// Whether a rank came to its end in a run that broke a contract. Where ranks wait for each other for ever,
/// each of them waits in its last call or has ended.
bool has_ended(const sim::RunReport& report, const sim::RankReport& rank) {
  constexpr const char* kOfWaiting[] = {"left_early",     "missing_ranks",  "group_not_created_by_all",
                                        "unmatched_send", "unmatched_recv", "deadlock"};
  const std::string& code = report.findings.front().code;
  const bool all_wait = std::find(std::begin(kOfWaiting), std::end(kOfWaiting), code) != std::end(kOfWaiting);
  return all_wait && std::ranges::all_of(rank.calls, [](const sim::CallRecord& call) { return call.waited; });
}

/// What a rank called: the calls that it made, and the one that was refused.
struct Called {
  Called(const sim::RunReport& report, const sim::RankReport& rank) : calls(rank.calls) {
    for (const sim::Finding& finding : report.findings) {
      for (const sim::CallFacts& facts : finding.calls) {
        if (facts.rank == rank.rank && facts.state == sim::kRefusedIn) add(facts, place_in(finding, facts));
      }
    }
  }
  Called(const Called&) = delete;
  Called& operator=(const Called&) = delete;

  sim::CallLog calls;

 private:
  /// The facts have a rank, and no place: what was refused as a root or peer is none of the group, but for a
  /// rank that sends to itself or receives from itself.
  static int place_in(const sim::Finding& finding, const sim::CallFacts& facts) {
    const bool is_itself = finding.code == "call_peer" && facts.root_or_peer == facts.rank;
    const bool is_refused_place = finding.code == "call_root" || finding.code == "call_peer";
    return is_refused_place && !is_itself ? facts.root_or_peer : -1;
  }
  void add(const sim::CallFacts& facts, int place) {
    group_.kind = facts.group.substr(0, facts.group.find('['));
    sim::Site site = sim::Site::named(facts.site);
    site.file = file_.assign(facts.file).c_str();
    site.line = facts.line;
    calls.push_back({.group = &group_,
                     .site = site,
                     .sequence = facts.sequence,
                     .count = facts.count,
                     .bytes_inside = 0,
                     .bytes_across = 0,
                     .root_or_peer = place,
                     .operation = facts.operation,
                     .dtype = facts.dtype,
                     .reduce_op = facts.reduce_op,
                     .waited = false});
  }

  sim::ProcessGroup group_;  // of the refused call
  std::string file_;
};

/// Returns the expected calls up to where a rank came that did not end. It may have left out or added a few
/// of them: the end that leaves the fewest differences is taken, and of several the last one. The rank is in
/// its last call: where that is expected a few calls later, those before it are missing, and it is not one
/// too many, unless it is the call before it once more.
std::vector<ExpectedCall> expected_so_far(const std::vector<ExpectedCall>& expected,
                                          const sim::CallLog& made) {
  constexpr std::size_t kMostAdded = 2, kMostLeftOut = 8;
  const std::size_t first = std::min(made.size() - std::min(made.size(), kMostAdded), expected.size());
  const std::size_t last = std::min(expected.size(), made.size() + kMostLeftOut);
  const auto ends_as_made = [&](std::size_t end) {
    return end > 0 && expected[end - 1] == as_expected(made.back());
  };
  bool knows_end = false;
  if (!made.empty() && !(made.size() > 1 && as_expected(made[made.size() - 2]) == as_expected(made.back()))) {
    for (std::size_t end = first; end <= last; ++end) knows_end = knows_end || ends_as_made(end);
  }
  std::optional<std::vector<ExpectedCall>> best;
  std::size_t fewest = 0;
  for (std::size_t end = first; end <= last; ++end) {
    if (knows_end && !ends_as_made(end)) continue;
    std::vector<ExpectedCall> part(expected.begin(), expected.begin() + static_cast<std::ptrdiff_t>(end));
    const std::size_t count = differences(part, made).size();
    if (best && count > fewest) continue;
    fewest = count;
    best = std::move(part);
  }
  return best.value_or(std::vector<ExpectedCall>());
}

}  // namespace

std::string explain_calls(const Case& the_case, const CaseSetting& setting, const sim::RunReport& report) {
  std::vector<RanksThatDiffer> all;
  const ExpectedOfRank expected_of_rank = expected_runs(the_case, setting);
  for (const sim::RankReport& rank : report.ranks) {
    const ExpectedRun run = expected_of_rank(rank.rank);
    if (!run.is_known) return "";
    const Called called(report, rank);
    const bool is_cut_off = !report.ok() && !has_ended(report, rank);
    const auto expected = is_cut_off ? expected_so_far(run.calls, called.calls) : run.calls;
    std::vector<CallDifference> found = differences(expected, called.calls);
    if (is_cut_off) allow_another_order(found, std::span(run.calls).subspan(expected.size()));
    for (RanksThatDiffer& one : counted_differences(std::move(found), rank.rank)) {
      const auto known = std::ranges::find_if(
          all, [&](const auto& other) { return other.what == one.what && other.times == one.times; });
      if (known == all.end()) {
        all.push_back(std::move(one));
      } else {
        known->ranks.insert(rank.rank);
        known->is_everywhere_there = known->is_everywhere_there && known->where == one.where;
      }
    }
  }
  std::string text;
  for (std::size_t i = 0; i < std::min(all.size(), kMostPhrases); ++i)
    text += (text.empty() ? "" : "; ") + text_of(all[i], report.ranks.size());
  if (all.size() > kMostPhrases) {
    const auto more = std::ssize(all) - static_cast<std::ptrdiff_t>(kMostPhrases);
    text += fmt::format("; and {}", counted(more, "more difference"));
  }
  return text;
}

}  // namespace verify
