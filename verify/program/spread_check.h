#pragma once

/// The command check with --spread. Its runs are divided over the processes of mpirun or srun, and the runs
/// of each process over its threads, so that a campaign can be larger than one machine.
///
/// Shapes  process p has share p (campaign_work.h).
/// Calls   Every process calls it with the same command line. Process 0 writes the table or the document,
///         which is that of one process, byte for byte; standard error says in addition who told the
///         processes who they are. All processes return the same exit code. mpirun may bind a process and all
///         its threads to one core; --bind-to none prevents that. An interrupt of any process ends the
///         campaign on all of them, and the table says how far each row came. srun passes an interrupt on to
///         the processes; mpirun ends them instead, and then there is no table.
/// Errors  one_process: there is only one process; those of open_backend.h and backend.h. If a process dies
///         or stops, the others name it within --deadline and end (rank_silent, process_silent), or the
///         launcher does so first.

#include <span>
#include <string>

#include "verify/campaign/campaign.h"
#include "verify/cases/case_list.h"
#include "verify/program/commands.h"
#include "verify/requests/backend_choice.h"

namespace verify {

struct SpreadCheck {
  const BackendChoice& choice;  // what spread_choice() returned
  const CampaignRequest& request;
  std::span<Bench> benches;  // one for each thread of this process
};

/// Returns the exit code.
int check_spread(const Call& call, const CaseList& cases, const SpreadCheck& spread);

}  // namespace verify
