#pragma once

/// Runs a command on a run of the user's own: reads what --from or --command gives, shows what becomes of its
/// arguments, and hands the document to the command. Its options are below those of a scenario and of the
/// command line.
///
/// The JSON of the command gets two members more: "from", the lists of run_view.h, and "effective", the
/// values of effective_values.h.
///
/// Errors  those of requested_run.h and run_of_file.h; from_as_file: a file that cannot be written.

#include <string>

#include "verify/output/json.h"
#include "verify/program/commands.h"

namespace verify {

/// Runs `command`. `members` becomes what the JSON of the command says of the run, also where it is refused;
/// an object without members if there is no run.
int run_from(const Call& call, int (*command)(const Call& call), Json& members);

/// Adds the members of an object to a document.
void add_members(Json& document, const Json& members);

/// Writes the JSON of a command, with what it says of the run.
void write_json(const Call& call, Json document);

/// Returns what the JSON says of the run as the text of its last members, for a document that is written in
/// parts: ",\"from\":{...}".
std::string last_members(const Call& call);

}  // namespace verify
