#include "verify/inspect/odd_programs.h"

#include <algorithm>
#include <compare>
#include <fmt/format.h>
#include <map>
#include <string>
#include <utility>

#include "verify/inspect/holding_call.h"

namespace verify {

namespace {

/// A call or a batch of messages, so that those of ranks of one stage can be compared.
struct Token {
  std::string group;  // its description
  std::string operation;
  std::int64_t sequence = -1;  // of a collective
  std::int64_t elements = 0;
  std::vector<std::pair<bool, int>> messages;  // sorted: whether it receives, and how far the peer is
  auto operator<=>(const Token&) const = default;
};

struct Made {
  Token token;
  std::uint32_t call = 0;  // the first of the dump's calls that it is
};

/// The ranks of a stage, as places in it, by the call that they made.
using ByToken = std::map<Token, std::vector<std::size_t>>;

class Stage {
 public:
  Stage(const Job& job, Elements elements) : job_(job), elements_(elements) {}

  void add(std::size_t dump) {
    dumps_.push_back(dump);
    programs_.push_back(program_of(dump));
    are_whole_ = are_whole_ && job_.recordings[dump].is_whole();
    have_no_gaps_ = have_no_gaps_ && job_.recordings[dump].has_no_gaps();
  }

  void find_odd(std::vector<OddProgram>& odd) const {
    std::vector<std::size_t> at(dumps_.size());
    if (!have_no_gaps_ || (!are_whole_ && !find_common_start(at))) return;
    std::vector<bool> goes_on(dumps_.size(), true);
    for (;; advance(at)) {
      ByToken made;
      for (std::size_t i = 0; i < dumps_.size(); ++i)
        if (goes_on[i] && at[i] < programs_[i].size()) made[programs_[i][at[i]].token].push_back(i);
      if (made.empty()) return;
      if (made.size() == 1) continue;
      const Token* const most = majority_of(made);
      if (most == nullptr) return;
      const std::size_t other = made.at(*most).front();
      for (const auto& [token, ranks] : made) {
        for (const std::size_t i : ranks) {
          if (&token == most) continue;
          goes_on[i] = false;
          if (has_groups_of(made, i))
            odd.push_back({job_.recordings[dumps_[i]].rank, call_at(i, at), call_at(other, at)});
        }
      }
    }
  }

 private:
  static void advance(std::vector<std::size_t>& at) {
    for (std::size_t& place : at) ++place;
  }

  CallOfDump call_at(std::size_t i, const std::vector<std::size_t>& at) const {
    return {dumps_[i], programs_[i][at[i]].call};
  }

  /// Whether a rank has groups of all kinds in which calls were made: only then could it have made each of
  /// them.
  bool has_groups_of(const ByToken& made, std::size_t i) const {
    return std::ranges::all_of(made, [&](const auto& one) {
      return std::ranges::any_of(job_.groups_of[dumps_[i]], [&](const GroupOfRank& own) {
        return own.group != kNoGroup && job_.groups[own.group].description == one.first.group;
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
    const std::vector<RecordedCall>& calls = job_.recordings[dump].calls;
    std::vector<Made> program;
    for (std::uint32_t i = 0; i < calls.size();) {
      const std::uint32_t end = end_of_batch(dump, i);
      if (job_.groups[job_.group_of(dump, calls[i])].members.size() > 1)
        program.push_back({token_of(dump, i, end), i});
      i = end;
    }
    return program;
  }

  /// Returns the end of the batch of messages that begins with a call, or of the parts of a collective.
  std::uint32_t end_of_batch(std::size_t dump, std::uint32_t begin) const {
    const std::vector<RecordedCall>& calls = job_.recordings[dump].calls;
    const RecordedCall& first = calls[begin];
    const bool is_message = !job_.is_collective(dump, first);
    std::uint32_t end = begin + 1;
    while (end < calls.size() && calls[end].group == first.group &&
           !job_.is_collective(dump, calls[end]) == is_message &&
           calls[end].number(is_message) == first.number(is_message) && first.number(is_message) > 0)
      ++end;
    return end;
  }

  Token token_of(std::size_t dump, std::uint32_t begin, std::uint32_t end) const {
    const std::vector<RecordedCall>& calls = job_.recordings[dump].calls;
    const RecordedCall& first = calls[begin];
    const JobGroup& group = job_.groups[job_.group_of(dump, first)];
    Token token{.group = group.description};
    if (job_.is_collective(dump, first)) {
      token.operation = job_.operation(dump, first).name;
      token.sequence = first.sequence;
      const bool counts = elements_ == Elements::compared && !token.operation.starts_with("all_to_all");
      for (std::uint32_t i = begin; counts && i < end; ++i)
        token.elements += job_.recordings[dump].sizes[calls[i].input_sizes].elements;
      return token;
    }
    const auto size = static_cast<int>(group.members.size());
    const auto own = static_cast<int>(std::ranges::find(group.members, job_.recordings[dump].rank) -
                                      group.members.begin());
    for (std::uint32_t i = begin; i < end; ++i) {
      const Operation& operation = job_.operation(dump, calls[i]);
      const bool receives = operation.kind == Operation::Kind::recv;
      const int peer = receives ? operation.from : operation.to;
      token.messages.emplace_back(receives, ((peer - own) % size + size) % size);
    }
    std::sort(token.messages.begin(), token.messages.end());
    return token;
  }

  const Job& job_;
  Elements elements_;
  std::vector<std::size_t> dumps_;
  std::vector<std::vector<Made>> programs_;  // of the dumps
  bool are_whole_ = true, have_no_gaps_ = true;
};

/// Whether the pipeline stages of a job are known: it has none, or its groups say what they are.
bool knows_stages(const Job& job) {
  const bool has_messages =
      std::ranges::any_of(job.groups, [](const JobGroup& group) { return group.has_messages; });
  return !has_messages || job.has_pipelines();
}

std::string words_of(const Job& job, const CallOfDump& made) {
  const RecordedCall& call = job.recordings[made.dump].calls[made.call];
  return call_words(job, {.group = job.group_of(made.dump, call),
                          .sequence = call.sequence,
                          .is_message = !job.is_collective(made.dump, call),
                          .dump = made.dump,
                          .call = made.call});
}

}  // namespace

std::string words_of_others(const Job& job, std::size_t ranks) {
  if (!job.has_pipelines()) return "the other ranks";
  return ranks == 1 ? "the other ranks of its pipeline stage" : "the other ranks of their pipeline stages";
}

std::string departure_words(const Job& job, const OddProgram& one) {
  return fmt::format("It made {}, where {} made {} (as rank {}).", words_of(job, one.own),
                     words_of_others(job, 1), words_of(job, one.others),
                     job.recordings[one.others.dump].rank);
}

std::vector<OddProgram> odd_programs(const Job& job, Elements elements) {
  constexpr std::size_t kMostCalls = std::size_t{1} << 22U;  // beyond that, nothing is compared
  std::size_t calls = 0;
  for (const Recording& recording : job.recordings) calls += recording.calls.size();
  if (!knows_stages(job) || calls > kMostCalls) return {};
  std::map<std::ptrdiff_t, Stage> stages;
  for (std::size_t dump = 0; dump < job.recordings.size(); ++dump) {
    if (job.is_early[dump]) continue;
    stages.try_emplace(job.stage_of(dump), job, elements).first->second.add(dump);
  }
  std::vector<OddProgram> odd;
  for (const auto& [place, stage] : stages) stage.find_odd(odd);
  std::ranges::sort(odd, {}, &OddProgram::rank);
  return odd;
}

}  // namespace verify
