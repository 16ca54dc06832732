#pragma once

/// What the dumps of a job say: which ranks to look at first, and why.
///
///   const Inspection inspection = inspect(read_recordings(source), {});
///   out << inspection_text(inspection) or one_line(inspection_json(inspection))
///
/// Exact   A verdict says with what the dumps are consistent, never what is. A disagreement about a call
///         comes before everything else if it, or a later call of its group, holds a rank.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "sim/layout/layout.h"
#include "verify/inspect/disagreements.h"
#include "verify/inspect/early_dumps.h"
#include "verify/inspect/group_order.h"
#include "verify/inspect/inferred_layout.h"
#include "verify/inspect/job.h"
#include "verify/inspect/suspects.h"
#include "verify/recordings/recording_reader.h"

namespace verify {

/// Something in the dumps that is not as it should be.
struct InspectionFinding {
  /// waiting, circle, stuck, operation, dtype, size, parts, groups, message, members, rank, world, version,
  /// layout, truncated, absent, lost
  std::string what;
  std::string text;  // a sentence
  std::vector<int> ranks;
};

struct Inspection {
  std::string verdict;  // one or two sentences
  std::vector<Suspect> suspects;
  std::optional<JudgedLayout> layout;
  std::vector<InspectionFinding> findings;
  std::vector<std::string> notes;        // on the files
  std::vector<std::string> cannot_tell;  // sentences
  Job job;
  Waiting waiting;
  EarlyDumps early;
  OddGroupOrder order;
  std::optional<Disagreement> leading;  // the disagreement that holds ranks
  std::int64_t sisters = 0;             // other groups that differ as the leading one does
  bool departs = false;      // the suspects of the leading disagreement are told apart by their programs
  bool by_habit = false;     // one of them by what it made before (odd_programs.h)
  bool is_unlisted = false;  // ranks wait in groups whose members are not known
  bool is_late = false;      // the suspect came late to a call, after others had written their dumps
  bool shows_all = false;
  bool has_findings() const { return !suspects.empty() || !findings.empty(); }
  /// Returns the ranks of the suspects, or those of one kind.
  std::vector<int> ranks_of(std::optional<SuspectKind> kind = std::nullopt) const;
};

/// Makes the layout of the user for a world of this many ranks; nothing where the user gives none.
using GivenLayout = std::function<std::optional<sim::Layout>(int world_size)>;

Inspection inspect(Recordings recordings, const GivenLayout& given, bool shows_all);

}  // namespace verify
