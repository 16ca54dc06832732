#include "verify/output/json.h"
#include "verify/program/commands.h"
#include "verify/program/run_from.h"
#include "verify/requests/command_requests.h"
#include "verify/run/guest_report.h"
#include "verify/run/guest_run.h"

namespace verify {

/// With --format json standard output has the document alone, and the lines of the ranks go to standard
/// error.
int run_run(const Call& call) {
  const GuestRequest request = guest_request_of(call.line, call.called);
  const bool as_json = asks_for_json(call.line);
  const GuestRun run = run_guests(request, [&](const GuestLine& line) {
    std::ostream& stream = line.is_error || as_json ? call.output.err : call.output.out;
    if (line.rank >= 0) stream << line.rank << "| ";
    stream << line.text << "\n" << std::flush;
  });
  if (as_json) {
    write_json(call, guest_run_json(request, run));
  } else {
    call.output.out << guest_run_text(request, run);
  }
  return run.is_clean() ? kVerified : kBroken;
}

}  // namespace verify
