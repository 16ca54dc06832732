#pragma once

/// The work of a campaign (campaign.h). Threads take portions of its runs, one after another, up to the first
/// failure of each row, and shrink and explain the failures. One process does all of this, or several
/// processes have a share each.
///
/// Shapes  A portion is four consecutive runs of a row. The rows and the portions of a row are numbered from
///         0, and a portion belongs to the share (row + portion) % shares.
/// Calls   A process that does all of the work calls work() on each of its threads. With several shares, each
///         process calls work() on its threads, and then conclude() for each row, with the first failure of
///         all shares. One of them calls settle() for each row that failed.
/// Exact   The numbers that conclude() gives a row, added up over all shares (the slack: their maximum), are
///         the same for any number of shares and threads, unless the campaign is stopped.

#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <vector>

#include "verify/campaign/campaign.h"
#include "verify/campaign/drawn_settings.h"
#include "verify/cases/case.h"

namespace verify {

// Makes a failing setting smaller for as long as it fails: fewer ranks first, then fewer replicas, then each
// dimension towards its least number. The dtype, the seed and all else in a setting stay the same.
//
// Exact   the result fails, and no single step from it does. A step replaces one number by a smaller one:
//         by any of those above its least where they are at most 16, and otherwise by those whose distance
//         from the number or from its least is 0 or a power of two.

/// Returns the smallest setting that single steps lead to from `failing`. `fails` tells whether a setting
/// fails.
CaseSetting shrunk(const Case& the_case, CaseSetting failing,
                   const std::function<bool(const CaseSetting&)>& fails);

/// The share of one process among several.
struct Share {
  int index;
  int shares;
};

class CampaignWork {
 public:
  /// The number of a run that does not exist: a row has no failure.
  static constexpr std::int64_t kNoRun = std::int64_t{1} << 53;  // a double has it, too

  /// The request and the rows must outlive it. Without a share it is all of the work.
  CampaignWork(const CampaignRequest& request, std::vector<CampaignRow>& rows, GoesOn goes_on,
               std::optional<Share> share = std::nullopt);

  /// The work of one thread: portions of runs, as long as there are any. Without a share, rows whose runs are
  /// over are concluded on the way, and their failures shrunk and explained.
  void work(Bench& bench);
  /// Returns the number of the first run of a row that failed in this share; kNoRun if there is none.
  std::int64_t first_failure(std::size_t row) const;
  /// Adds up the portions of a row, in their order, up to the first failure in any share. Later portions do
  /// not count, because it depends on threads and processes how many of them had begun.
  void conclude(std::size_t row, std::int64_t first_failure);
  /// Shrinks and explains the first failure of a row, which any share may have found: that run is judged
  /// again where it was not of this share. Threads may settle different rows at once.
  void settle(Bench& bench, std::size_t row, std::int64_t first_failure);
  /// Whether GoesOn stopped the campaign before its end.
  bool was_stopped() const;

 private:
  /// Consecutive runs of a row, in their order, up to the first that fails.
  struct Portion {
    std::int64_t runs = 0;
    double slack = 0;
    std::int64_t runs_with_unbounded = 0;
    std::optional<Failure> failure = std::nullopt;
  };
  /// A row, the settings that it still has to draw, and its finished portions by their first run.
  struct RowInWork {
    CampaignRow* row;
    DrawnSettings settings;
    std::int64_t own_runs = 0;  // of this share
    std::int64_t drawn = 0;
    std::int64_t over = 0;  // how many of the drawn runs of this share have finished
    std::map<std::int64_t, Portion> portions = {};
    int portions_begun = 0;
    bool has_failed = false;
  };
  DrawnSettings drawn_settings(const CampaignRow& row) const;
  bool is_own(std::size_t row, std::int64_t first_run) const;
  bool is_drawn(const RowInWork& in_work) const;
  RowInWork* next_row();
  std::vector<CaseSetting> next_portion(RowInWork& in_work);
  bool goes_on(const CampaignRow& row);
  bool fails_again(Bench& bench, CampaignRow& row, std::int64_t failure);
  Portion run(Bench& bench, const CampaignRow& row, const std::vector<CaseSetting>& settings);
  bool replaces(Bench& bench, CampaignRow& row, const CaseSetting& setting);
  void shrink(Bench& bench, CampaignRow& row);
  bool fails_on_fewer_ranks(Bench& bench, CampaignRow& row);
  void shrink_and_explain(Bench& bench, CampaignRow& row);
  /// Returns the explanation of a layer that a training has and that fails by itself; "" where none does, or
  /// the failure is of no training.
  static std::string explained_by_a_layer(Bench& bench, const CampaignRow& row);

  const CampaignRequest& request_;
  GoesOn goes_on_;
  std::optional<Share> share_;
  mutable std::mutex mutex_;  // guards what follows, and the rows that no thread concludes
  std::vector<RowInWork> rows_;
  std::size_t next_ = 0;  // the first row that has runs left to draw
  std::int64_t done_ = 0;
  bool stopped_ = false;
};

}  // namespace verify
