#include <thread>

#include "sim/base/error.h"
#include "verify/inspect/inspection.h"
#include "verify/inspect/inspection_text.h"
#include "verify/output/progress.h"
#include "verify/program/commands.h"
#include "verify/program/run_from.h"
#include "verify/requests/command_requests.h"

namespace verify {

int run_inspect(const Call& call) {
  const InspectRequest request = inspect_request(call.line);
  Progress progress(call.output, "dumps");
  Recordings recordings = read_recordings({request.paths, request.rank_from, request.threads},
                                          [&](std::size_t done, std::size_t total, const std::string& path) {
                                            progress.step(done, total, path);
                                          });
  progress.end();
  const Inspection inspection = inspect(std::move(recordings), request.layout_of_world, request.shows_all);
  if (asks_for_json(call.line)) {
    write_json(call, inspection_json(inspection));
  } else {
    call.output.out << inspection_text(inspection, call.output.columns);
  }
  return inspection.has_findings() ? kFalsified : kVerified;
}

}  // namespace verify
