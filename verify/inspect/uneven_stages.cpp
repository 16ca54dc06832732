#include "verify/inspect/uneven_stages.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <set>

#include "verify/inspect/sentences.h"

namespace verify {

namespace {

/// The ranks of a stage, and how many microbatches each of them has begun.
struct StageCount {
  std::vector<int> ranks;
  std::int64_t begun = 0;
};

class Counter {
 public:
  explicit Counter(const Evidence& know) : know_(know) {}

  std::optional<UnevenStages> find() {
    if (!count()) return std::nullopt;
    std::map<std::int64_t, std::vector<std::ptrdiff_t>> stages_by_number;
    for (const auto& [stage, one] : stages_) stages_by_number[one.begun].push_back(stage);
    if (stages_by_number.size() != 2 || stages_by_number.contains(0)) return std::nullopt;
    const auto& [fewer, first] = *stages_by_number.begin();
    const auto& [more, second] = *stages_by_number.rbegin();
    if (stages_.size() == 2) return both_stages();
    if (first.size() > 1 && second.size() > 1) return std::nullopt;
    const bool has_more = second.size() == 1;
    const std::ptrdiff_t odd = has_more ? second.front() : first.front();
    return UnevenStages{
        stages_.at(odd).ranks,
        sentence("detail_stage_odd", {{"stage", words_of(odd)}, {"others", has_more ? fewer : more}})};
  }

 private:
  UnevenStages both_stages() const {
    const auto& [stage, one] = *stages_.rbegin();
    UnevenStages found{stages_.begin()->second.ranks,
                       sentence("detail_stage_two", {{"stage", words_of(stages_.begin()->first)},
                                                     {"ranks", one.ranks},
                                                     {"number", stage},
                                                     {"begun", one.begun}})};
    found.ranks.insert(found.ranks.end(), one.ranks.begin(), one.ranks.end());
    std::ranges::sort(found.ranks);
    return found;
  }

  std::string words_of(std::ptrdiff_t stage) const {
    const StageCount& one = stages_.at(stage);
    return sentence("detail_stage", {{"ranks", one.ranks},
                                     {"stage", stage},
                                     {"n", one.begun},
                                     {"since", counts_from_begin_ ? "the begin of the dumps"
                                                                  : "the last call of all stages"}});
  }

  /// Counts the microbatches of every stage. Returns whether all are known.
  bool count() {
    std::set<std::size_t> sizes;
    for (const JobGroup& group : know_.job.groups) {
      if (!group.is_pipeline) continue;
      if (group.may_lack_members) return false;
      sizes.insert(group.members.size());
    }
    if (sizes.size() != 1 || *sizes.begin() < 2) return false;
    stage_count_ = *sizes.begin();
    for (const std::size_t dump : know_.job.dumps()) {
      if (know_.job.is_early[dump] || know_.job.recordings[dump].is_truncated) return false;
      const std::optional<std::int64_t> begun = begun_by(dump);
      if (!begun) return false;
      StageCount& stage = stages_[know_.job.stage_of(dump)];
      if (!stage.ranks.empty() && stage.begun != *begun) return false;
      stage.begun = *begun;
      stage.ranks.push_back(know_.job.rank_of(dump));
    }
    return stages_.size() == stage_count_;
  }

  /// Counts a message. Of two stages, the first one passes microbatches on, and the second one takes them.
  void count(const JobCall& call, std::int64_t& taken, std::int64_t& passed) const {
    const auto stages = static_cast<int>(stage_count_), own = static_cast<int>(know_.job.stage_of(call.dump));
    const Operation& operation = call.operation();
    const bool receives = operation.kind == Operation::Kind::recv;
    if (receives && operation.from == (own + stages - 1) % stages && (stages > 2 || own == 1)) ++taken;
    if (!receives && operation.to == (own + 1) % stages && (stages > 2 || own == 0)) ++passed;
  }

  /// Returns how many microbatches a rank has taken from the stage before it, or passed on, since the last
  /// call of all stages and up to the call that holds it; nothing where its dump does not tell. What its host
  /// has issued behind that call counts for nothing.
  std::optional<std::int64_t> begun_by(std::size_t dump) {
    const Recording& recording = know_.job.recordings[dump];
    const std::vector<JobCall>& front = know_.progresses.of(dump).front;
    if (!recording.has_no_gaps()) return std::nullopt;
    std::int64_t taken = 0, passed = 0;
    for (std::size_t i = front.empty() ? recording.calls.size() : front.back().index() + 1; i-- > 0;) {
      const JobCall call = know_.job.call_at(dump, i);
      if (!call.is_collective()) {
        if (call.group().is_pipeline) count(call, taken, passed);
      } else if (call.is_completed() && is_of_all_stages(call.group_id())) {
        return std::max(taken, passed);
      }
    }
    if (!recording.is_whole()) return std::nullopt;
    counts_from_begin_ = true;
    return std::max(taken, passed);
  }

  /// Whether a group has ranks of all stages, and is no pipeline.
  bool is_of_all_stages(std::uint32_t index) {
    const auto [known, is_new] = is_of_all_.try_emplace(index, false);
    if (!is_new) return known->second;
    const JobGroup& group = know_.job.groups[index];
    if (group.is_pipeline || group.may_lack_members) return false;
    std::set<std::ptrdiff_t> stages;
    for (const int member : group.members)
      if (know_.job.dump_of(member)) stages.insert(know_.stage_of(member));
    return known->second = stages.size() == stage_count_;
  }

  const Evidence& know_;
  std::size_t stage_count_ = 0;
  std::map<std::ptrdiff_t, StageCount> stages_;
  std::map<std::uint32_t, bool> is_of_all_;  // by group
  bool counts_from_begin_ = false;           // a dump has no call of all stages
};

}  // namespace

std::optional<UnevenStages> uneven_stages(const Evidence& know) { return Counter(know).find(); }

}  // namespace verify
