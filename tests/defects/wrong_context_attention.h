#pragma once

/// Attention over context-parallel ranks with typical programming mistakes: rank programs that publish what
/// the case cp_attention publishes.
///
/// Source  TransformerEngine, context_parallel.py, and what was reported of it.

#include "verify/cases/case.h"

namespace test {

/// Rings of their own. They are taken where the setting has a ring over all ranks and no padding, and the
/// right attention elsewhere.
enum class RingMistake {
  none,
  masked_as_the_rank_ahead,   // a step masks the keys as if they came from rank r + i, and not r - i
  lower_and_upper_exchanged,  // an earlier rank's keys are taken for a later one's, and the other way round
  added_without_rescaling,    // each step divides by its own sum, and its result is added as it is
  merged_over_all_rows,       // a step of the high chunk also counts in the sums of the low one
  not_waited_for,             // a step reads keys that are still being received
  added_to_old_memory,        // the first gradient of a half is added to what was there
  high_half_not_copied,       // the gradient of rank 0's high chunk is not written
  home_one_step_early,        // a rank takes the gradient that it has before the last message
  turns_the_other_way,        // forward, keys go to the rank before and come from the one after
  sent_to_the_source,         // forward, keys are sent to the rank from which they are received
  stale_keys_backward,        // every step of backward uses the keys of the first one
};
void ring_with(RingMistake mistake, sim::Rank& rank, const verify::CaseSetting& setting);

/// Attention of their own where the setting gathers keys and values.
enum class GatherMistake {
  none,
  rows_in_rank_order,  // gathered rows are taken as they come
  causal_top_left,     // the causal mask is aligned with the first key of a chunk, and not with the last
};
void all_gather_with(GatherMistake mistake, sim::Rank& rank, const verify::CaseSetting& setting);

void heads_of_rows_in_rank_order(sim::Rank& rank, const verify::CaseSetting& setting);
void attends_across_documents(sim::Rank& rank, const verify::CaseSetting& setting);
void padding_attended(sim::Rank& rank, const verify::CaseSetting& setting);
void one_group_for_both_levels(sim::Rank& rank, const verify::CaseSetting& setting);

}  // namespace test
