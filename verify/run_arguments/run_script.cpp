#include "verify/run_arguments/run_script.h"

#include <string>

#include "verify/run_arguments/launch_arguments.h"
#include "verify/run_arguments/script_reader.h"

namespace verify {

namespace {

constexpr const char* kEndsAsOnWindows =
    "the lines end as on Windows (CR LF), which is read here as LF alone; bash takes the CR for a part of "
    "the "
    "last word of its line, and a '\\' before it joins no lines: `dos2unix` mends the file";

}  // namespace

RunArguments read_run_script(std::string_view text, const RunVariables& set, const std::string& path) {
  const std::string lines = with_plain_lines(text);
  ScriptReader reader(set, path);
  reader.read(lines);
  RunArguments run = reader.arguments();
  run.kind = RunFileKind::script;
  if (lines.size() < text.size()) run.notes.emplace_back(kEndsAsOnWindows);
  constexpr const char* kConnections = "CUDA_DEVICE_MAX_CONNECTIONS";
  const auto handed_on =
      run.environment.contains(kConnections) ? std::nullopt : value_handed_on(text, kConnections);
  if (handed_on) run.environment[kConnections] = *handed_on;
  return run;
}

}  // namespace verify
