#pragma once

/// Runs a command on a run of the user's own: reads the file of --from, shows what becomes of its arguments,
/// and hands the options that they stand for to the command, below those of a scenario and of the command
/// line.
///
///   --from FILE --set NAME=VALUE --from-as scenario FILE
///
/// The JSON of the command gets two members more: "from", the lists of run_view.h, and "effective", the
/// values of effective_values.h.
///
/// Errors  those of run_of_file.h; from_as_form: --from-as with another word than "scenario"; from_as_file: a
///         file that cannot be written.

#include "verify/output/json.h"
#include "verify/program/commands.h"

namespace verify {

/// What the JSON of a command tells of the run, also where it is refused. Empty without --from.
struct RunMembers {
  Json from;
  Json effective;
  void add_to(Json& document) const;
};

/// Runs `command`, and keeps in `members` what it tells of the run.
int run_from(const Call& call, int (*command)(const Call& call), RunMembers& members);

}  // namespace verify
