#pragma once

/// What --version shows: the version, the commit of the sources, and what is compiled in.
///
///   shardproof 0.2.0 (commit abcdef123456, clean)
///     compiler  GNU 12.2.0, Release
///     MPI       Open MPI v4.1.4
///     NCCL      not compiled in: it needs CUDA
///
/// Shapes  a program without a `Build`, such as that of a project that uses prove(), shows the version alone.
/// Exact   nothing of it reaches the result of any other command.

#include <optional>
#include <string>
#include <vector>

#include "verify/output/json.h"

namespace verify {

/// The commit from which a program was built.
struct Commit {
  std::string id;            // the first twelve digits, or "" if it is not known
  bool has_changes = false;  // whether a source of the program differed from the commit
};

/// A library or a tool with which a program was built.
struct Part {
  std::string name;
  std::string version;          // "" if it is not compiled in
  std::string why_absent = "";  // set in that case
};

struct Build {
  Commit commit;
  std::vector<Part> parts;
};

std::string version_text(const std::optional<Build>& build);
/// {"version":"0.2.0","commit":"abcdef123456","has_changes":false,"parts":[{"name":"MPI","version":"..."},
/// {"name":"NCCL","version":null,"why_absent":"..."}]}. What is not known is null.
Json version_json(const std::optional<Build>& build);

}  // namespace verify
