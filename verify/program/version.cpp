#include "verify/program/version.h"

#include <fmt/format.h>

#include "verify/output/text_table.h"

namespace verify {

namespace {

std::string commit_text(const Commit& commit) {
  if (commit.id.empty()) return "unknown commit";
  return fmt::format("commit {}, {}", commit.id, commit.has_changes ? "with changes" : "clean");
}

}  // namespace

std::string version_text(const std::optional<Build>& build) {
  const std::string version = "shardproof " SHARDPROOF_VERSION;
  if (!build) return version + "\n";
  TextTable parts({"", ""});
  for (const Part& part : build->parts)
    parts.row(part.name, part.version.empty() ? "not compiled in: " + part.why_absent : part.version);
  return fmt::format("{} ({})\n{}", version, commit_text(build->commit), parts.text("  "));
}

Json version_json(const std::optional<Build>& build) {
  Json json = {{"version", SHARDPROOF_VERSION}};
  if (!build) return json;
  const Commit& commit = build->commit;
  json["commit"] = commit.id.empty() ? Json(nullptr) : Json(commit.id);
  json["has_changes"] = commit.id.empty() ? Json(nullptr) : Json(commit.has_changes);
  json["parts"] = json_list(build->parts, [](const Part& part) {
    Json row = {{"name", part.name}, {"version", part.version.empty() ? Json() : Json(part.version)}};
    if (part.version.empty()) row["why_absent"] = part.why_absent;
    return row;
  });
  return json;
}

}  // namespace verify
