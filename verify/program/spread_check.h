#pragma once

/// The command check with --spread: its runs are divided over the processes of mpirun or srun, and those of
/// each process over its threads. So a campaign can be larger than one machine.
///
/// Shapes  process p has the share p of spread_campaign.h.
/// Calls   Every process calls it with the same command line. Process 0 writes the table or the document, which
///         is that of one process, byte for byte; standard error says in addition who told the processes who
///         they are. All processes return the same exit code. mpirun may bind a process to one core, and its
///         threads with it (--bind-to none). An interrupt of any process
///         ends the campaign on all of them, and the table says how far each row came. (mpirun ends its
///         processes when it is interrupted itself, and then there is no table; srun passes the interrupt
///         on.)
/// Errors  one_process: there is one process, so there is nothing to divide; those of open_backend.h and
///         backend.h. A process that is dead or stopped is told by the others, within --deadline, and ends
///         all of them: rank_silent, process_silent.

#include <span>
#include <string>

#include "verify/cases/case_list.h"
#include "verify/options/backend_choice.h"
#include "verify/program/commands.h"
#include "verify/properties/campaign.h"

namespace verify {

struct SpreadCheck {
  const BackendChoice& choice;  // what spread_choice() returned
  const CampaignRequest& request;
  std::span<Bench> benches;  // one for each thread of this process
};

/// Returns the exit code. `called` is the program that a line uses to reproduce a failure.
int check_spread(const Call& call, const CaseList& cases, const std::string& called,
                 const SpreadCheck& spread);

}  // namespace verify
