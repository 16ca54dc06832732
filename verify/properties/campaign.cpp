#include "verify/properties/campaign.h"

#include <algorithm>
#include <exception>
#include <fmt/format.h>
#include <future>
#include <map>
#include <mutex>
#include <utility>

#include "sim/base/printable_text.h"
#include "verify/properties/drawn_settings.h"
#include "verify/properties/explanation.h"
#include "verify/properties/shrinking.h"

namespace verify {

namespace {

/// How many runs a thread takes at once: enough that the lock costs nothing, and few enough that all threads
/// finish at about the same time.
constexpr std::int64_t kRunsAtOnce = 4;
/// How many runs search for a failure on fewer ranks than the shrunk failure has.
constexpr int kRunsOnFewerRanks = 100;

/// Returns the requested dtypes in which the property judges the case.
std::vector<sim::DType> dtypes_of(const CampaignRequest& request, const Case& the_case,
                                  const Property& property) {
  std::vector<sim::DType> dtypes;
  for (const sim::DType dtype : request.dtypes) {
    if (property.judges(the_case, dtype)) dtypes.push_back(dtype);
  }
  return dtypes;
}

/// Some runs of a row, in their order, up to the first that fails.
struct Portion {
  std::int64_t runs = 0;
  double slack = 0;
  std::int64_t runs_with_unbounded = 0;
  std::optional<Failure> failure;
};

/// A row, the settings that it still has to draw, and its finished portions by their first run.
struct RowInWork {
  CampaignRow* row;
  DrawnSettings settings;
  std::int64_t drawn = 0;
  std::int64_t over = 0;  // how many of the drawn runs have finished
  std::map<std::int64_t, Portion> portions = {};
  int portions_begun = 0;
  bool has_failed = false;
};

class Campaign {
 public:
  Campaign(const CampaignRequest& request, std::vector<CampaignRow>& rows, const GoesOn& goes_on)
      : request_(request), goes_on_(goes_on) {
    for (CampaignRow& row : rows) {
      rows_.push_back({&row, DrawnSettings(*row.the_case, row.property->name,
                                           dtypes_of(request, *row.the_case, *row.property), request.seed,
                                           request.max_world)});
    }
  }

  /// What one thread does: portions of runs, as long as there are any.
  void work(Bench& bench) {
    std::unique_lock lock(mutex_);
    while (RowInWork* in_work = next_row()) {
      const std::int64_t first = in_work->drawn;
      std::vector<CaseSetting> settings;
      while (in_work->drawn < request_.runs && std::ssize(settings) < kRunsAtOnce) {
        settings.push_back(in_work->settings.next());
        ++in_work->drawn;
      }
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
      conclude(*in_work);
      done_ += request_.runs - in_work->over;  // after a failure there are no more
      if (!in_work->row->failure) continue;
      lock.unlock();
      shrink_and_explain(bench, *in_work->row);
      lock.lock();
    }
  }

 private:
  bool is_drawn(const RowInWork& in_work) const {
    return stopped_ || in_work.has_failed || in_work.drawn == request_.runs;
  }
  RowInWork* next_row() {
    for (; next_ < rows_.size(); ++next_) {
      if (!is_drawn(rows_[next_])) return &rows_[next_];
    }
    return nullptr;
  }

  bool goes_on(const CampaignRow& row) {
    const std::lock_guard lock(mutex_);
    if (!stopped_ && !goes_on_(done_, row)) stopped_ = true;
    return !stopped_;
  }

  Portion run(Bench& bench, const CampaignRow& row, const std::vector<CaseSetting>& settings) {
    Portion portion;
    for (const CaseSetting& setting : settings) {
      if (!goes_on(row)) break;
      const Judged judged = judge(bench, row, setting);
      ++portion.runs;
      portion.slack = std::max(portion.slack, judged.judgement.slack);
      portion.runs_with_unbounded += judged.judgement.has_unbounded ? 1 : 0;
      if (judged.judgement.holds) continue;
      portion.failure = judged.failure(setting);
      break;
    }
    return portion;
  }

  struct Judged {
    Judgement judgement;
    bool threw = false;
    Failure failure(const CaseSetting& setting) const {
      return {setting, judgement.detail, "", threw, judgement.finding};
    }
  };
  static Judged judge(Bench& bench, const CampaignRow& row, const CaseSetting& setting) {
    try {
      return {row.property->judge(bench, *row.the_case, setting)};
    } catch (const std::exception& error) {
      return {
          {.holds = false, .detail = fmt::format("the case threw: {}", sim::printable_text(error.what()))},
          true};
    }
  }

  /// Adds up the portions of a row, in their order, up to the first failure. Later portions do not count,
  /// because it depends on the threads how many of them had begun.
  static void conclude(RowInWork& in_work) {
    CampaignRow& row = *in_work.row;
    for (auto& [first, portion] : in_work.portions) {
      row.runs += portion.runs;
      row.slack = std::max(row.slack, portion.slack);
      row.runs_with_unbounded += portion.runs_with_unbounded;
      row.failure = std::move(portion.failure);
      if (row.failure) return;
    }
  }

  /// Judges a setting that may replace the failure of a row. Returns whether it does.
  bool replaces(Bench& bench, CampaignRow& row, const CaseSetting& setting) {
    if (!goes_on(row)) return false;
    const Judged judged = judge(bench, row, setting);
    ++row.runs;
    if (judged.judgement.holds) return false;
    row.failure = judged.failure(setting);
    return true;
  }

  void shrink(Bench& bench, CampaignRow& row) {
    shrunk(*row.the_case, row.failure->setting,
           [&](const CaseSetting& setting) { return replaces(bench, row, setting); });
  }

  /// Searches for a failure on fewer ranks, and returns whether one was found. Some failures need a larger
  /// shape there, which shrinking one number at a time does not reach.
  bool fails_on_fewer_ranks(Bench& bench, CampaignRow& row) {
    const CaseSetting failing = row.failure->setting;
    const int fewer = failing.group_size * failing.replicas - 1;
    if (fewer == 0) return false;
    DrawnSettings settings(*row.the_case, row.property->name, {failing.dtype}, request_.seed, fewer);
    for (int i = 0; i < kRunsOnFewerRanks; ++i) {
      if (replaces(bench, row, settings.next())) return true;
    }
    return false;
  }

  void shrink_and_explain(Bench& bench, CampaignRow& row) {
    do {
      shrink(bench, row);
    } while (fails_on_fewer_ranks(bench, row));
    Failure& smallest = *row.failure;
    if (!smallest.threw)
      smallest.explanation = explanation(bench, *row.the_case, *row.property, smallest.setting);
  }

  const CampaignRequest& request_;
  const GoesOn& goes_on_;
  std::mutex mutex_;  // guards what follows, and the rows that no thread concludes
  std::vector<RowInWork> rows_;
  std::size_t next_ = 0;  // the first row that has runs left to draw
  std::int64_t done_ = 0;
  bool stopped_ = false;
};

}  // namespace

std::vector<CampaignRow> campaign_rows(const CampaignRequest& request) {
  std::vector<CampaignRow> rows;
  for (const Case* the_case : request.cases) {
    for (const Property* property : request.properties) {
      if (dtypes_of(request, *the_case, *property).empty()) continue;
      rows.push_back({.the_case = the_case, .property = property});
    }
  }
  return rows;
}

void run_campaign(const CampaignRequest& request, std::span<Bench> benches, std::vector<CampaignRow>& rows,
                  const GoesOn& goes_on) {
  Campaign campaign(request, rows, goes_on);
  std::vector<std::future<void>> others;  // what a thread throws is thrown here
  for (Bench& bench : benches.subspan(1))
    others.push_back(std::async(std::launch::async, [&] { campaign.work(bench); }));
  campaign.work(benches.front());
  for (std::future<void>& other : others) other.get();
}

}  // namespace verify
