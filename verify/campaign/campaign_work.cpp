#include "verify/campaign/campaign_work.h"

#include <algorithm>
#include <fmt/format.h>
#include <set>
#include <span>
#include <utility>

#include "verify/cases/case_list.h"
#include "verify/explain/explanation.h"

namespace verify {

namespace {

Failure failure_of(const Judgement& judged, const CaseSetting& setting) {
  return {.setting = setting,
          .detail = judged.detail,
          .explanation = "",
          .threw = judged.threw,
          .finding = judged.finding,
          .differs_in_levels_alone = judged.differs_in_levels_alone};
}

constexpr std::int64_t kAllOf = 16;

/// Returns the numbers from `least` on that are tried in place of `number`, the smallest first.
std::set<std::int64_t> smaller_numbers(std::int64_t least, std::int64_t number) {
  std::set<std::int64_t> smaller;
  if (number <= least) return smaller;
  smaller.insert(least);
  const bool tries_all = number - least <= kAllOf;
  for (std::int64_t step = 1; step < number - least; step = tries_all ? step + 1 : 2 * step) {
    smaller.insert(least + step);
    smaller.insert(number - step);
  }
  return smaller;
}

/// How many runs a thread takes at once: enough that the lock costs nothing, and few enough that all threads
/// finish at about the same time.
constexpr std::int64_t kRunsAtOnce = 4;
/// How many runs search for a failure on fewer ranks than the shrunk failure has.
constexpr int kRunsOnFewerRanks = 100;

}  // namespace

CaseSetting shrunk(const Case& the_case, CaseSetting failing,
                   const std::function<bool(const CaseSetting&)>& fails) {
  // Replaces a number of the setting by the smallest one with which it still fails. Returns whether there is
  // one.
  const auto shrinks = [&](std::int64_t least, std::int64_t number, const auto& replace) {
    for (const std::int64_t candidate : smaller_numbers(least, number)) {
      CaseSetting smaller = failing;
      replace(smaller, candidate);
      if (!fails(smaller)) continue;
      failing = std::move(smaller);
      return true;
    }
    return false;
  };
  bool any = true;
  while (any) {
    any = shrinks(1, failing.group_size, [](CaseSetting& s, auto n) { s.group_size = static_cast<int>(n); });
    any |= shrinks(1, failing.replicas, [](CaseSetting& s, auto n) { s.replicas = static_cast<int>(n); });
    for (const Dimension& d : the_case.dimensions()) {
      any |= shrinks(d.least, failing.dimensions.at(d.name),
                     [&](CaseSetting& s, auto n) { s.dimensions[d.name] = n; });
    }
  }
  return failing;
}

CampaignWork::CampaignWork(const CampaignRequest& request, std::vector<CampaignRow>& rows, GoesOn goes_on,
                           std::optional<Share> share)
    : request_(request), goes_on_(std::move(goes_on)), share_(share) {
  for (CampaignRow& row : rows) {
    rows_.push_back({&row, drawn_settings(row)});
    for (std::int64_t first = 0; first < request.runs; first += kRunsAtOnce) {
      if (is_own(rows_.size() - 1, first))
        rows_.back().own_runs += std::min(kRunsAtOnce, request.runs - first);
    }
  }
}

void CampaignWork::work(Bench& bench) {
  std::unique_lock lock(mutex_);
  while (RowInWork* in_work = next_row()) {
    const std::int64_t first = in_work->drawn;
    const std::vector<CaseSetting> settings = next_portion(*in_work);
    const auto row = static_cast<std::size_t>(in_work - rows_.data());
    if (!is_own(row, first)) continue;
    ++in_work->portions_begun;
    lock.unlock();
    Portion portion = run(bench, *in_work->row, settings);
    lock.lock();
    done_ += portion.runs;
    in_work->over += portion.runs;
    in_work->has_failed |= portion.failure.has_value();
    in_work->portions.emplace(first, std::move(portion));
    const bool is_last = is_drawn(*in_work) && std::ssize(in_work->portions) == in_work->portions_begun;
    if (!is_last) continue;
    done_ += in_work->own_runs - in_work->over;  // after a failure there are no more
    if (share_) continue;
    conclude(row, first_failure(row));
    if (!in_work->row->failure) continue;
    lock.unlock();
    shrink_and_explain(bench, *in_work->row);
    lock.lock();
  }
}

std::int64_t CampaignWork::first_failure(std::size_t row) const {
  for (const auto& [first, portion] : rows_[row].portions) {
    if (portion.failure) return first + portion.runs - 1;
  }
  return kNoRun;
}

void CampaignWork::conclude(std::size_t row, std::int64_t first_failure) {
  CampaignRow& whole = *rows_[row].row;
  for (auto& [first, portion] : rows_[row].portions) {
    if (first > first_failure) return;
    whole.runs += portion.runs;
    whole.slack = std::max(whole.slack, portion.slack);
    whole.runs_with_unbounded += portion.runs_with_unbounded;
    whole.failure = std::move(portion.failure);
  }
}

void CampaignWork::settle(Bench& bench, std::size_t row, std::int64_t first_failure) {
  CampaignRow& whole = *rows_[row].row;
  if (whole.failure || fails_again(bench, whole, first_failure)) shrink_and_explain(bench, whole);
}

bool CampaignWork::was_stopped() const {
  const std::lock_guard lock(mutex_);
  return stopped_;
}

/// Returns the settings of a row, in the requested dtypes in which its property judges the case.
DrawnSettings CampaignWork::drawn_settings(const CampaignRow& row) const {
  return {*row.the_case, row.property->name, judged_dtypes(request_, *row.the_case, *row.property),
          request_.seed, request_.max_world};
}

bool CampaignWork::is_own(std::size_t row, std::int64_t first_run) const {
  const std::int64_t portion = first_run / kRunsAtOnce + static_cast<std::int64_t>(row);
  return !share_ || portion % share_->shares == share_->index;
}

bool CampaignWork::is_drawn(const RowInWork& in_work) const {
  return stopped_ || in_work.has_failed || in_work.drawn == request_.runs;
}

CampaignWork::RowInWork* CampaignWork::next_row() {
  for (; next_ < rows_.size(); ++next_) {
    if (!is_drawn(rows_[next_])) return &rows_[next_];
  }
  return nullptr;
}

std::vector<CaseSetting> CampaignWork::next_portion(RowInWork& in_work) {
  std::vector<CaseSetting> settings;
  while (in_work.drawn < request_.runs && std::ssize(settings) < kRunsAtOnce) {
    settings.push_back(in_work.settings.next());
    ++in_work.drawn;
  }
  return settings;
}

bool CampaignWork::goes_on(const CampaignRow& row) {
  const std::lock_guard lock(mutex_);
  if (!stopped_ && !goes_on_(done_, row)) stopped_ = true;
  return !stopped_;
}

CampaignWork::Portion CampaignWork::run(Bench& bench, const CampaignRow& row,
                                        const std::vector<CaseSetting>& settings) {
  Portion portion;
  for (const CaseSetting& setting : settings) {
    if (!goes_on(row)) break;
    const Judgement judged = judge_setting(*row.property, bench, *row.the_case, setting);
    ++portion.runs;
    portion.slack = std::max(portion.slack, judged.slack);
    portion.runs_with_unbounded += judged.has_unbounded || judged.has_open_choice ? 1 : 0;
    if (judged.holds) continue;
    portion.failure = failure_of(judged, setting);
    break;
  }
  return portion;
}

/// Takes up a failure that another share has found. Returns whether it is one on this process, too.
bool CampaignWork::fails_again(Bench& bench, CampaignRow& row, std::int64_t failure) {
  DrawnSettings settings = drawn_settings(row);
  for (std::int64_t run = 0; run < failure; ++run) settings.next();
  const CaseSetting setting = settings.next();
  const Judgement judged = judge_setting(*row.property, bench, *row.the_case, setting);
  row.failure = failure_of(judged, setting);
  if (!judged.holds) return true;
  row.failure->detail = fmt::format(
      "run {} failed on another process and holds on process 0: the case depends on more than its setting",
      failure);
  return false;
}

/// Judges a setting that may replace the failure of a row. Returns whether it does. Wrong values are not
/// replaced by values that only lack other levels of the field, of which little can be said.
bool CampaignWork::replaces(Bench& bench, CampaignRow& row, const CaseSetting& setting) {
  if (!goes_on(row)) return false;
  const Judgement judged = judge_setting(*row.property, bench, *row.the_case, setting);
  ++row.runs;
  if (judged.holds) return false;
  if (judged.differs_in_levels_alone && !row.failure->differs_in_levels_alone) return false;
  row.failure = failure_of(judged, setting);
  return true;
}

void CampaignWork::shrink(Bench& bench, CampaignRow& row) {
  shrunk(*row.the_case, row.failure->setting,
         [&](const CaseSetting& setting) { return replaces(bench, row, setting); });
}

/// Searches for a failure on fewer ranks, and returns whether one was found. Some failures need a larger
/// shape there, which shrinking one number at a time does not reach.
bool CampaignWork::fails_on_fewer_ranks(Bench& bench, CampaignRow& row) {
  const CaseSetting failing = row.failure->setting;
  const int fewer = failing.group_size * failing.replicas - 1;
  if (fewer == 0) return false;
  DrawnSettings settings(*row.the_case, row.property->name, {failing.dtype}, request_.seed, fewer);
  for (int i = 0; i < kRunsOnFewerRanks; ++i) {
    if (replaces(bench, row, settings.next())) return true;
  }
  return false;
}

/// The layers are this project's, as those of its trainings. A failing layer says more than a training, and
/// in a hundredth of the time.
std::string CampaignWork::explained_by_a_layer(Bench& bench, const CampaignRow& row) {
  constexpr const char* kLayers[] = {"vocab_parallel_embedding",
                                     "parallel_norm",
                                     "self_attention",
                                     "multi_latent_attention",
                                     "cp_attention",
                                     "mlp",
                                     "moe_router",
                                     "moe_aux_loss",
                                     "token_dispatcher",
                                     "moe_layer",
                                     "transformer_layer",
                                     "vocab_parallel_cross_entropy"};
  constexpr std::int64_t kRuns = 12;
  if (row.the_case->stretches(row.failure->setting).empty()) return "";
  for (const char* name : kLayers) {
    const Case* layer = find_case(name);
    CampaignRequest request{.cases = {layer},
                            .properties = {&all_properties().front()},
                            .dtypes = {sim::DType::field},
                            .runs = kRuns,
                            .max_world = row.failure->setting.group_size};
    std::vector<CampaignRow> rows = campaign_rows(request);
    run_campaign(request, std::span(&bench, 1), rows, [](std::int64_t, const CampaignRow&) { return true; });
    if (rows.empty() || !rows.front().failure) continue;
    return fmt::format("{} is wrong by itself, too, with {}: {}", name,
                       text_of(rows.front().failure->setting), rows.front().failure->explanation);
  }
  return "";
}

void CampaignWork::shrink_and_explain(Bench& bench, CampaignRow& row) {
  do {
    shrink(bench, row);
  } while (fails_on_fewer_ranks(bench, row));
  Failure& smallest = *row.failure;
  smallest.explanation = explained_by_a_layer(bench, row);
  if (!smallest.threw && smallest.explanation.empty())
    smallest.explanation = explanation(bench, *row.the_case, *row.property, smallest.setting);
}

}  // namespace verify
