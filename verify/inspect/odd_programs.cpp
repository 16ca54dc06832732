#include "verify/inspect/odd_programs.h"

#include <algorithm>
#include <compare>
#include <map>
#include <string>
#include <utility>

#include "verify/inspect/disagreements.h"

namespace verify {

namespace {

/// A call or a batch of messages, so that those of ranks of one stage can be compared.
struct Token {
  std::string group;  // its description, and its number among the groups of the same ranks
  std::string operation;
  std::int64_t sequence = -1;  // of a collective
  std::int64_t elements = 0;
  std::string dtype;                           // of its inputs
  std::vector<std::pair<bool, int>> messages;  // sorted: whether it receives, and how far the peer is
  auto operator<=>(const Token&) const = default;
};

struct Made {
  Token token;
  JobCall call;  // the first that it is
};

/// The ranks of a stage, as places in it, by the call that they made.
using ByToken = std::map<Token, std::vector<std::size_t>>;

class Stage {
 public:
  Stage(const Job& job, const std::vector<std::string>& names, Elements elements)
      : job_(job), names_(names), elements_(elements) {}

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
    std::vector<bool> goes_on(dumps_.size(), true);
    for (;; std::ranges::for_each(at, [](std::size_t& place) { ++place; })) {
      const ByToken made = made_at(at, goes_on);
      if (made.empty()) return;
      if (made.size() == 1) continue;
      const Token* const most = majority_of(made);
      if (most == nullptr) return;
      const std::size_t other = made.at(*most).front();
      for (const auto& [token, ranks] : made) {
        if (&token == most) continue;
        for (const std::size_t i : ranks) {
          goes_on[i] = false;
          if (has_groups_of(made, i))
            odd.push_back({job_.rank_of(dumps_[i]), holding_call_of(programs_[i][at[i]].call),
                           holding_call_of(programs_[other][at[other]].call)});
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
        return names_[own.group] == one.first.group;
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
      if (first.group().members.size() > 1) program.push_back({token_of(parts), first});
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
    Token token{.group = names_[first.group_id()]};
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
  const std::vector<std::string>& names_;  // of the groups
  Elements elements_;
  std::vector<std::size_t> dumps_;
  std::vector<std::vector<Made>> programs_;  // of the dumps
  bool are_whole_ = true, have_no_gaps_ = true;
};

/// Returns the descriptions of the groups. Groups of the same ranks and description are numbered.
std::vector<std::string> names_of_groups(const Job& job) {
  std::map<std::pair<std::string, std::vector<int>>, int> times;
  std::vector<std::string> names;
  for (const JobGroup& group : job.groups) {
    const int number = times[{group.description, group.members}]++;
    names.push_back(group.description + (number == 0 ? "" : " " + std::to_string(number)));
  }
  return names;
}

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

std::vector<OddProgram> odd_programs(const Job& job, Elements elements) {
  constexpr std::size_t kMostCalls = std::size_t{1} << 22U;  // beyond that, nothing is compared
  std::size_t calls = 0;
  for (const Recording& recording : job.recordings) calls += recording.calls.size();
  if (!knows_stages(job) || calls > kMostCalls) return {};
  const std::vector<std::string> names = names_of_groups(job);
  std::map<std::ptrdiff_t, Stage> stages;
  for (const std::size_t dump : job.dumps()) {
    stages.try_emplace(job.stage_of(dump), job, names, elements).first->second.add(dump);
  }
  std::vector<OddProgram> odd;
  for (const auto& [place, stage] : stages) stage.find_odd(odd);
  std::ranges::sort(odd, {}, &OddProgram::rank);
  return odd;
}

}  // namespace verify
