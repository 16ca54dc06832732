#pragma once

/// A run of virtual ranks as an exam of inspect: whom the virtual world names, and the dumps of the run, from
/// which inspect has to name the same ranks.

#include <set>
#include <string>
#include <vector>

#include "sim/layout/layout.h"
#include "sim/world/simulate.h"
#include "verify/inspect/inspection.h"
#include "verify/recordings/dump_writer.h"
#include "verify/recordings/recording_reader.h"

namespace test {

using RankSet = std::set<int>;

/// Returns the ranks at fault, as the diagnosis of the virtual world names them: those that ended without
/// their call; where members made different calls, the smaller party; the first two where only they are
/// compared; and all of a circle. There are none without a finding.
RankSet culprits_of(const sim::RunReport& run);

RankSet suspects_of(const verify::Inspection& inspection);

/// The dumps of a run on a sim::CountingDevice.
std::vector<verify::RankDump> dumps_of_run(const sim::Layout& layout, const sim::RunReport& run);

/// The dumps as the program reads them from pickles. That of rank `cut_rank` ends after `cut_size` bytes.
verify::Recordings read_dumps(const std::vector<verify::RankDump>& dumps, int cut_rank = -1,
                              std::size_t cut_size = 0);

/// Returns "0, 1", or "none".
std::string text_of(const RankSet& ranks);

}  // namespace test
