#include "verify/inspect/odd_programs.h"

#include <algorithm>
#include <compare>
#include <map>
#include <span>
#include <string>
#include <utility>

#include "verify/inspect/disagreements.h"
#include "verify/inspect/sentences.h"

namespace verify {

namespace {

/// A call or a batch of messages, so that those of ranks of one stage can be compared.
struct Token {
  std::string group;  // its description
  std::string operation;
  std::int64_t sequence = -1;  // of a collective
  std::int64_t elements = 0;
  std::string dtype;                           // of its inputs
  std::vector<std::pair<bool, int>> messages;  // sorted: whether it receives, and how far the peer is
  auto operator<=>(const Token&) const = default;
};

struct Made {
  Token token;
  JobCall call;               // the first that it is
  std::int64_t elements = 0;  // of a collective whose elements are alike in every step
};

/// The ranks of a stage, as places in it, by the call that they made.
using ByToken = std::map<Token, std::vector<std::size_t>>;

/// The calls that two ranks both made, and what each made then.
struct Fork {
  std::span<const Made> both;
  const Made& own;
  const Made& other;
};

/// Says which of two calls comes next by what the ranks made before, after the longest run of calls that is
/// like the last ones.
class Habit {
 public:
  explicit Habit(const Fork& fork) : fork_(fork) {
    for (std::size_t i = fork.both.size(); i-- > 0;) backwards_.push_back(number_of(fork.both[i]));
    seen_ = numbers_.size();
    own_ = number_of(fork.own);
    other_ = number_of(fork.other);
  }

  /// Returns the one of the two calls that comes next; null where that cannot be told.
  const Token* next() const {
    const Expected expected = expected_next();
    if (expected.call == own_ && is_departure(other_, expected.ago)) return &fork_.own.token;
    if (expected.call == other_ && is_departure(own_, expected.ago)) return &fork_.other.token;
    return nullptr;
  }

 private:
  static constexpr std::size_t kLeastRun = 4;  // calls: shorter runs may be alike by chance
  static constexpr std::size_t kNone = ~std::size_t{0};

  /// Calls have one number that are alike but for their sequence.
  std::size_t number_of(const Made& made) {
    Token token = made.token;
    token.sequence = -1;
    token.elements = made.elements;
    return numbers_.try_emplace(std::move(token), numbers_.size()).first->second;
  }

  /// What came next at the last place that was like this one, so many calls ago.
  struct Expected {
    std::size_t call = kNone;
    std::size_t ago = 0;
  };

  /// Whether a call that came in place of the expected one is out of its order: the ranks have made it since
  /// they were at such a place, and not once only. Otherwise it may end a loop for the first time, or be one
  /// that is made now and then, and the other rank has left it out. It differs from the expected one in its
  /// messages, its size or its dtype alone, or tells nothing.
  bool is_departure(std::size_t call, std::size_t ago) const {
    const auto end = backwards_.begin() + static_cast<std::ptrdiff_t>(ago);
    const bool is_of_one_kind = fork_.own.token.group == fork_.other.token.group &&
                                fork_.own.token.operation == fork_.other.token.operation;
    if (call >= seen_) return is_of_one_kind;
    return std::find(backwards_.begin(), end, call) != end && std::ranges::count(backwards_, call) > 1;
  }

  /// Returns what followed the longest earlier run that is like the last calls; nothing where different calls
  /// followed the longest ones. Where all runs are short, one call must have followed all of them, and twice.
  Expected expected_next() const {
    const std::vector<std::size_t> runs = runs_like_the_last();
    const std::size_t longest = runs.size() < 2 ? 0 : *std::max_element(runs.begin() + 1, runs.end());
    const std::size_t least = longest < kLeastRun ? 1 : longest;
    Expected expected;
    std::size_t times = 0;
    for (std::size_t i = 1; i < runs.size(); ++i) {
      if (runs[i] < least) continue;
      if (times++ == 0) expected = {.call = backwards_[i - 1], .ago = i};
      if (expected.call != backwards_[i - 1]) return {};
    }
    return longest < kLeastRun && times < 2 ? Expected() : expected;
  }

  /// Returns, by place in the calls from the last one to the first, how many calls from there on are like
  /// those from the last one on (the Z function).
  std::vector<std::size_t> runs_like_the_last() const {
    const std::size_t size = backwards_.size();
    std::vector<std::size_t> runs(size);
    for (std::size_t i = 1, left = 0, right = 0; i < size; ++i) {
      if (i < right) runs[i] = std::min(right - i, runs[i - left]);
      while (i + runs[i] < size && backwards_[runs[i]] == backwards_[i + runs[i]]) ++runs[i];
      if (i + runs[i] <= right) continue;
      left = i;
      right = i + runs[i];
    }
    return runs;
  }

  const Fork fork_;
  std::map<Token, std::size_t> numbers_;
  std::vector<std::size_t> backwards_;  // numbers of the calls that both made, the last one first
  std::size_t seen_ = 0;                // larger numbers are those of calls that were not made before
  std::size_t own_ = 0, other_ = 0;
};

class Stage {
 public:
  Stage(const Job& job, Elements elements) : job_(job), elements_(elements) {}

  void add(std::size_t dump) {
    dumps_.push_back(dump);
    programs_.push_back(program_of(dump));
    are_whole_ = are_whole_ && job_.recordings[dump].is_whole();
    have_no_gaps_ = have_no_gaps_ && job_.recordings[dump].has_no_gaps();
  }

  ByToken made_at(const std::vector<std::size_t>& at, const std::vector<bool>& goes_on) const {
    ByToken made;
    for (std::size_t i = 0; i < dumps_.size(); ++i)
      if (goes_on[i] && at[i] < programs_[i].size()) made[programs_[i][at[i]].token].push_back(i);
    return made;
  }

  void find_odd(std::vector<OddProgram>& odd) const {
    std::vector<std::size_t> at(dumps_.size());
    if (!have_no_gaps_ || (!are_whole_ && !find_common_start(at))) return;
    const std::vector<std::size_t> start = at;
    std::vector<bool> goes_on(dumps_.size(), true);
    for (;; std::ranges::for_each(at, [](std::size_t& place) { ++place; })) {
      const ByToken made = made_at(at, goes_on);
      if (made.empty()) return;
      if (made.size() == 1) continue;
      const Token* most = majority_of(made);
      const bool by_habit = most == nullptr;
      if (by_habit) most = habitual(made, start, at);
      if (most == nullptr) return;
      const std::size_t other = made.at(*most).front();
      for (const auto& [token, ranks] : made) {
        if (&token == most) continue;
        for (const std::size_t i : ranks) {
          goes_on[i] = false;
          if (has_groups_of(made, i))
            odd.push_back({job_.rank_of(dumps_[i]), holding_call_of(programs_[i][at[i]].call),
                           holding_call_of(programs_[other][at[other]].call), by_habit});
        }
      }
    }
  }

 private:
  /// Whether a rank has groups of all kinds in which calls were made: only then could it have made each of
  /// them.
  bool has_groups_of(const ByToken& made, std::size_t i) const {
    return std::ranges::all_of(made, [&](const auto& one) {
      return std::ranges::any_of(job_.groups_of[dumps_[i]], [&](const GroupOfRank& own) {
        return job_.groups[own.group].description == one.first.group;
      });
    });
  }

  /// Returns the call that more than half of the ranks made that could have made each of the calls, if they
  /// are two or more.
  const Token* majority_of(const ByToken& made) const {
    const Token* most = nullptr;
    std::size_t first = 0, all = 0;
    for (const auto& [token, ranks] : made) {
      const auto votes = static_cast<std::size_t>(
          std::ranges::count_if(ranks, [&](std::size_t i) { return has_groups_of(made, i); }));
      all += votes;
      if (votes > first) most = &token;
      first = std::max(first, votes);
    }
    return first >= 2 && 2 * first > all ? most : nullptr;
  }

  /// Returns the one of two calls, each of as many ranks, that both parties made before at such a place; null
  /// where that cannot be told. Up to there all of them have made the same calls.
  const Token* habitual(const ByToken& made, const std::vector<std::size_t>& start,
                        const std::vector<std::size_t>& at) const {
    const auto could_make_both = [&](const auto& one) {
      return std::ranges::all_of(one.second, [&](std::size_t i) { return has_groups_of(made, i); });
    };
    if (made.size() != 2 || made.begin()->second.size() != made.rbegin()->second.size()) return nullptr;
    if (!std::ranges::all_of(made, could_make_both)) return nullptr;
    const std::size_t own = made.begin()->second.front(), other = made.rbegin()->second.front();
    const std::span<const Made> program(programs_[own]);
    const Habit habit({program.subspan(start[own], at[own] - start[own]), programs_[own][at[own]],
                       programs_[other][at[other]]});
    const Token* const next = habit.next();
    return next == nullptr ? nullptr : &made.find(*next)->first;
  }

  /// Finds the earliest collective that all dumps have. Returns whether there is one.
  bool find_common_start(std::vector<std::size_t>& at) const {
    std::map<Token, std::vector<std::size_t>> places;  // by collective: where the first dumps have it
    for (std::size_t i = 0; i < programs_.size(); ++i) {
      for (std::size_t k = 0; k < programs_[i].size(); ++k) {
        const Token& token = programs_[i][k].token;
        if (token.sequence < 0) continue;
        if (i == 0) places[token] = {k};
        const auto known = places.find(token);
        if (known != places.end() && known->second.size() == i) known->second.push_back(k);
      }
    }
    const std::vector<std::size_t>* earliest = nullptr;
    for (const auto& [token, of_dumps] : places) {
      if (of_dumps.size() < programs_.size()) continue;
      if (earliest == nullptr || std::ranges::max(of_dumps) < std::ranges::max(*earliest))
        earliest = &of_dumps;
    }
    if (earliest != nullptr) at = *earliest;
    return earliest != nullptr;
  }

  std::vector<Made> program_of(std::size_t dump) const {
    const std::size_t size = job_.recordings[dump].calls.size();
    std::vector<Made> program;
    for (std::size_t begin = 0, end = 0; begin < size; begin = end) {
      const JobCall first = job_.call_at(dump, begin);
      // The batch of messages that begins with a call, or the parts of a collective.
      std::vector<JobCall> parts = {first};
      for (end = begin + 1; end < size && is_of_one_batch(first, job_.call_at(dump, end)); ++end)
        parts.push_back(job_.call_at(dump, end));
      if (first.group().members.size() > 1) program.push_back({token_of(parts), first, elements_of(parts)});
    }
    return program;
  }

  static bool is_of_one_batch(const JobCall& first, const JobCall& other) {
    const bool is_message = !first.is_collective();
    return other->group == first->group && other.is_collective() != is_message &&
           other->number(is_message) == first->number(is_message) && first->number(is_message) > 0;
  }

  Token token_of(const std::vector<JobCall>& parts) const {
    const JobCall& first = parts.front();
    Token token{.group = first.group().description};
    if (first.is_collective()) {
      token.operation = first.operation().name;
      token.sequence = first->sequence;
      if (elements_ == Elements::left_out) return token;
      token.elements = elements_of(parts);
      token.dtype = input_dtypes(first.recording().text(first->dtypes));
      return token;
    }
    const std::vector<int>& members = first.group().members;
    const auto size = static_cast<int>(members.size());
    const auto own = static_cast<int>(std::ranges::find(members, first.rank()) - members.begin());
    for (const JobCall& call : parts)
      token.messages.emplace_back(call.operation().kind == Operation::Kind::recv,
                                  ((call.operation().peer() - own) % size + size) % size);
    std::ranges::sort(token.messages);
    return token;
  }

  /// Returns the elements that go into a collective; 0 of messages, and of an all_to_all, which differ.
  static std::int64_t elements_of(const std::vector<JobCall>& parts) {
    const JobCall& first = parts.front();
    if (!first.is_collective() || first.operation().name.starts_with("all_to_all")) return 0;
    std::int64_t elements = 0;
    for (const JobCall& call : parts) elements += call.elements_in();
    return elements;
  }

  const Job& job_;
  Elements elements_;
  std::vector<std::size_t> dumps_;
  std::vector<std::vector<Made>> programs_;  // of the dumps
  bool are_whole_ = true, have_no_gaps_ = true;
};

/// Whether messages go around a ring of ranks that share long sequences, and all make the same calls.
bool is_of_context(const JobGroup& group) {
  return !group.kind.empty() || mesh_dimension(group.description) == "cp";
}

/// Whether the pipeline stages of a job are known: it has none, or its groups say what they are.
bool knows_stages(const Job& job) {
  return job.has_pipelines() || std::ranges::none_of(job.groups, [](const JobGroup& group) {
           return group.has_messages && !is_of_context(group);
         });
}

}  // namespace

std::string words_of_others(const Job& job, std::size_t ranks) {
  if (!job.has_pipelines()) return "the other ranks";
  return ranks == 1 ? "the other ranks of its pipeline stage" : "the other ranks of their pipeline stages";
}

std::string departure_words(const Job& job, const OddProgram& one) {
  return sentence(one.by_habit ? "why_departed_by_habit" : "why_departed",
                  {{"own", call_words(job, one.own)},
                   {"others", words_of_others(job, 1)},
                   {"call", call_words(job, one.others)},
                   {"rank", job.rank_of(one.others.dump)}});
}

std::vector<OddProgram> odd_programs(const Job& job, Elements elements) {
  constexpr std::size_t kMostCalls = std::size_t{1} << 22U;  // beyond that, nothing is compared
  std::size_t calls = 0;
  for (const Recording& recording : job.recordings) calls += recording.calls.size();
  if (!knows_stages(job) || calls > kMostCalls) return {};
  std::map<std::ptrdiff_t, Stage> stages;
  for (const std::size_t dump : job.dumps()) {
    if (job.is_early[dump]) continue;
    stages.try_emplace(job.stage_of(dump), job, elements).first->second.add(dump);
  }
  std::vector<OddProgram> odd;
  for (const auto& [place, stage] : stages) stage.find_odd(odd);
  std::ranges::sort(odd, {}, &OddProgram::rank);
  return odd;
}

}  // namespace verify
