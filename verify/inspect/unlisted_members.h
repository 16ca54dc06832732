#pragma once

/// Members of groups that no dump lists ("pg_config" is missing): the ranks whose dumps have calls of the
/// group are known, and those without a dump, or without a call of it, are not.
///
/// Groups of one description have one form: their members are those of another one, moved by some ranks. So
/// a group with fewer members than another one of its description has those ranks that are in no group of it
/// which make it one of this form, if only one choice does. The only group of a description has all ranks
/// without a dump where its gathers then have the right number of parts.
///
/// Exact   A group may lack members where it is smaller than others of its description, or has one member,
///         where a message of it goes to a place that it has not, where its gathers and reduce_scatters have
///         another number of parts than it has members, or where ranks without a dump are in no group of its
///         description, and no such call confirms its size. So may one that a dump knows by the rank's own
///         number alone. Groups of a description that is none of Megatron's may have several sizes, if every
///         rank has a dump.

#include "verify/inspect/job.h"

namespace verify {

/// Completes the groups whose members no dump lists, and marks those that may lack some. The operations of
/// the job have to be known.
void complete_unlisted_members(Job& job);

}  // namespace verify
