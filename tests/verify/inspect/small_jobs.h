#pragma once

/// Jobs of a few ranks whose dumps a test writes call by call, and what an inspection says of them.

#include <algorithm>
#include <string>
#include <vector>

#include "tests/verify/inspect/hung_job.h"
#include "verify/inspect/inspection.h"

namespace test {

/// Ranks with the world and, if asked for, pairs {0, 1}, {2, 3}, ... and with no calls yet.
inline std::vector<TestDump> ranks_of_world(int world, bool has_pairs = false) {
  std::vector<TestDump> dumps;
  std::vector<int> all;
  for (int rank = 0; rank < world; ++rank) all.push_back(rank);
  for (int rank = 0; rank < world; ++rank) {
    TestDump dump;
    dump.rank = rank;
    dump.groups = {{"0", "default_pg", all}};
    const int first = rank / 2 * 2;
    if (has_pairs) dump.groups.push_back({std::to_string(1 + rank / 2), "undefined", {first, first + 1}});
    dumps.push_back(std::move(dump));
  }
  return dumps;
}

inline DumpedTestCall pending(std::size_t group, const char* operation, std::int64_t sequence = 1) {
  return {.group = group, .operation = operation, .sequence = sequence, .state = "scheduled"};
}

inline DumpedTestCall completed(std::size_t group, const char* operation, std::int64_t sequence) {
  return {.group = group, .operation = operation, .sequence = sequence};
}

inline DumpedTestCall message(const char* operation, std::int64_t number, const char* state,
                              std::int64_t record_id = -1) {
  return {
      .operation = operation, .sequence = 0, .p2p_sequence = number, .state = state, .record_id = record_id};
}

inline DumpedTestCall pending_message(const char* operation) { return message(operation, 1, "scheduled"); }

inline verify::Inspection inspected(const std::vector<TestDump>& dumps, bool all = false) {
  return verify::inspect(recordings_of(dumps), {}, all);
}

inline std::vector<int> suspects(const verify::Inspection& inspection) {
  std::vector<int> ranks;
  for (const verify::Suspect& suspect : inspection.suspects) ranks.push_back(suspect.rank);
  return ranks;
}

inline bool are_all(const verify::Inspection& inspection, verify::SuspectKind kind) {
  return std::all_of(inspection.suspects.begin(), inspection.suspects.end(),
                     [&](const auto& suspect) { return suspect.kind == kind; });
}

inline bool has_finding(const verify::Inspection& inspection, const std::string& what) {
  return std::any_of(inspection.findings.begin(), inspection.findings.end(),
                     [&](const auto& finding) { return finding.what == what; });
}

inline bool tells(const verify::Inspection& inspection, const std::string& part) {
  return std::any_of(inspection.cannot_tell.begin(), inspection.cannot_tell.end(),
                     [&](const auto& sentence) { return sentence.find(part) != std::string::npos; });
}

}  // namespace test
