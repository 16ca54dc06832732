#include "verify/inspect/inspection_text.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <map>
#include <set>
#include <utility>

#include "sim/base/printable_text.h"
#include "verify/inspect/sentences.h"
#include "verify/output/phrases.h"
#include "verify/output/text_table.h"
#include "verify/output/wrapped_text.h"
#include "verify/recorded_job/call_meaning.h"

namespace verify {

namespace {

constexpr std::size_t kMostRows = 16;  // of a table, unless all are asked for
constexpr std::size_t kMostShownFrames = 4;

std::size_t rows_of(const Inspection& inspection, std::size_t all) {
  return inspection.shows_all ? all : std::min(all, kMostRows);
}

std::string rest_of(std::size_t shown, std::size_t all, const char* what) {
  return shown == all ? "" : fmt::format("  ... and {} more {} (--all shows them)\n", all - shown, what);
}

std::string plain_ranks(const std::vector<int>& ranks) {
  const std::string words = ranks_words(ranks);
  return words.substr(words.find(' ') + 1);
}

std::string group_label(const JobGroup& group) {
  const std::string name = sim::printable_text(group.name.substr(0, 20));
  if (!group.kind.empty()) return fmt::format("{} '{}'", group.kind, name);
  return group.is_default() ? "default" : fmt::format("'{}'", name);
}

std::string call_label(const JobCall& call) {
  return sim::printable_text(call.recording().operation(*call.recorded).substr(0, 60));
}

/// Returns what a call looks like; nothing is known of one that only "pg_status" knows.
CallMeaning meaning_of(const Job& job, const HoldingCall& call) {
  const auto recorded = call.recorded_in(job);
  return recorded ? call_meaning(*recorded) : CallMeaning();
}

/// The three lines, and what makes them more or less sure.
std::string report_text(const Report& report, std::size_t columns) {
  const std::string sure =
      fmt::format("{}: {}", confidence_name(report.confidence), sentence(confidence_name(report.confidence)));
  return report.first + "\n" + wrapped("why", 6, report.why, columns) +
         wrapped("next", 6, report.next, columns) + "\n" + wrapped("", 0, sure + report.rest, columns);
}

std::string suspects_text(const Inspection& inspection) {
  if (inspection.suspects.empty()) return "";
  const auto& suspects = inspection.suspects;
  TextTable table({">rank", "place", "looks like", "why"});
  const std::size_t shown = rows_of(inspection, suspects.size());
  for (std::size_t i = 0; i < shown; ++i) {
    const bool has_place = inspection.layout && suspects[i].rank < inspection.layout->layout.world_size;
    table.row(suspects[i].rank, has_place ? cell_text(inspection.layout->layout.dense, suspects[i].rank) : "",
              suspect_kind_name(suspects[i].kind), suspects[i].reason);
  }
  return "\nlook at first\n" + table.text("  ") + rest_of(shown, suspects.size(), "ranks");
}

std::string layout_text(const Inspection& inspection, std::size_t columns) {
  if (!inspection.layout) {
    const bool has_kinds =
        std::ranges::any_of(inspection.job.groups, [](const JobGroup& group) { return !group.kind.empty(); });
    return "\n" + wrapped("layout", 8,
                          fmt::format("It is not known: {} ranks, and {}. --from or the options of a layout "
                                      "give one.",
                                      inspection.job.world_size,
                                      has_kinds ? "the members of Megatron's groups are not listed, or agree "
                                                  "with no layout"
                                                : "no group has a description of Megatron's"),
                          columns);
  }
  const JudgedLayout& judged = *inspection.layout;
  const GroupComparison& comparison = judged.comparison;
  const std::string sizes = fmt::format(
      "{} ({}). {} of {} groups of the dumps are equal to groups of this layout{}.",
      sizes_text(judged.layout), judged.is_inferred ? "a guess, from the groups of the dumps" : "as given",
      comparison.groups - comparison.differing, comparison.groups,
      comparison.not_judged > 0 ? fmt::format("; {} not judged", comparison.not_judged) : "");
  return "\n" + wrapped("layout", 8, sizes, columns);
}

std::string waits_text(const Inspection& inspection) {
  const Job& job = inspection.job;
  const std::vector<HoldingCall>& calls = inspection.waiting.calls;
  if (calls.empty()) return "";
  TextTable table({"ranks", "wait in", ">call", "of group", "for", "looks like"});
  const std::size_t shown = rows_of(inspection, calls.size());
  for (std::size_t i = 0; i < shown; ++i) {
    const HoldingCall& call = calls[i];
    const auto recorded = call.recorded_in(job);
    table.row(plain_ranks(call.waiting),
              recorded ? call_label(*recorded) : fmt::format("call {}", call.sequence), call.sequence,
              group_label(job.groups[call.group]), call.awaits() ? plain_ranks(call.targets()) : "-",
              meaning_of(job, call).text);
  }
  return "\nwho waits for whom, nearest to the cause first\n" + table.text("  ") +
         rest_of(shown, calls.size(), "calls");
}

/// The stacks of the last calls of ranks that stand still, and of the calls that wait for suspects: of each
/// the innermost frames that are of the program.
std::string frames_text(const Inspection& inspection) {
  std::string text;
  std::size_t shown = 0;
  const auto add = [&](const std::optional<JobCall>& call, const char* where) {
    if (!call || (*call)->frames == 0 || shown == 4) return;
    ++shown;
    text += fmt::format("  rank {} {} {}\n", call->rank(), where, call_label(*call));
    const std::vector<std::string_view> frames = program_frames(call->recording(), *call->recorded);
    for (std::size_t i = 0; i < std::min(frames.size(), kMostShownFrames); ++i)
      text += fmt::format("    {}\n", sim::printable_text(std::string(frames[i])));
  };
  for (const Suspect& suspect : inspection.suspects)
    add(last_call_of(inspection.job, suspect), "after its last call,");
  for (const HoldingCall& call : inspection.waiting.calls) add(call.recorded_in(inspection.job), "in");
  return text.empty() ? "" : "\nstacks of the program, the innermost frame first\n" + text;
}

std::string list_text(const char* title, const std::vector<std::string>& sentences, std::size_t columns) {
  if (sentences.empty()) return "";
  std::string text = fmt::format("\n{}\n", title);
  for (const std::string& sentence : sentences) text += wrapped(" -", 4, sentence, columns);
  return text;
}

Json json_of(const std::string& text) { return text.empty() ? Json(nullptr) : Json(text); }

Json layout_json(const Inspection& inspection) {
  return inspection.layout ? judged_layout_json(*inspection.layout) : Json(nullptr);
}

/// The calls that hold ranks, nearest to the cause first.
Json waits_json(const Inspection& inspection) {
  const Job& job = inspection.job;
  const auto if_known = [](std::int64_t number) { return number > 0 ? Json(number) : Json(nullptr); };
  Json waits = Json::array();
  for (const HoldingCall& call : inspection.waiting.calls) {
    const CallMeaning meaning = meaning_of(job, call);
    const auto recorded = call.recorded_in(job);
    waits.push_back({{"ranks", call.waiting},
                     {"for", call.awaited},
                     {"absent", call.absent},
                     {"group", call.group},
                     {"operation", recorded ? Json(call_label(*recorded)) : Json(nullptr)},
                     {"sequence", call.sequence},
                     {"is_message", call.is_message},
                     {"looks_like", json_of(meaning.text)},
                     {"bucket", if_known(meaning.bucket)},
                     {"buckets", if_known(meaning.buckets)},
                     {"line", json_of(line_of(job, call))}});
  }
  return waits;
}

}  // namespace

std::string inspection_text(const Inspection& inspection, int given_columns) {
  const auto columns = static_cast<std::size_t>(std::clamp(given_columns, 60, 110));
  std::vector<std::string> findings;
  for (const InspectionFinding& finding : inspection.findings) findings.push_back(finding.text);
  const std::size_t shown = rows_of(inspection, findings.size());
  const std::string rest = rest_of(shown, findings.size(), "findings");
  findings.resize(shown);
  return report_text(inspection.report, columns) + suspects_text(inspection) + waits_text(inspection) +
         frames_text(inspection) + list_text("findings", findings, columns) + rest +
         layout_text(inspection, columns) +
         list_text("what these dumps cannot show", inspection.cannot_tell, columns) +
         list_text("files", inspection.notes, columns);
}

Json inspection_json(const Inspection& inspection) {
  Json suspects = Json::array(), groups = Json::array(), findings = Json::array();
  for (const Suspect& suspect : inspection.suspects) {
    const auto last = last_call_of(inspection.job, suspect);
    suspects.push_back({{"rank", suspect.rank},
                        {"reason", suspect.reason},
                        {"kind", suspect_kind_name(suspect.kind)},
                        {"last_line", last ? json_of(line_of(*last)) : Json(nullptr)}});
  }
  std::set<std::pair<std::string, std::vector<int>>> differing;  // groups, from those of the layout
  if (inspection.layout) {
    for (const GroupDifference& difference : inspection.layout->comparison.differences)
      differing.insert({difference.description, difference.ranks});
  }
  for (const JobGroup& group : inspection.job.groups) {
    const bool is_judged = inspection.layout && group.has_known_members && !group.kind.empty();
    const bool is_equal = !differing.contains({group.description, group.members});
    groups.push_back({{"name", group.name},
                      {"description", group.description},
                      {"kind", group.kind},
                      {"ranks", group.members},
                      {"equal", is_judged ? Json(is_equal) : Json(nullptr)}});
  }
  for (const InspectionFinding& finding : inspection.findings)
    findings.push_back({{"finding", finding.what}, {"text", finding.text}, {"ranks", finding.ranks}});
  std::vector<std::string> cannot_tell = inspection.cannot_tell;
  cannot_tell.insert(cannot_tell.end(), inspection.notes.begin(), inspection.notes.end());
  return {
      {"look_first", inspection.report.first}, {"verdict", inspection.verdict},
      {"next", inspection.report.next},        {"confidence", confidence_name(inspection.report.confidence)},
      {"suspects", std::move(suspects)},       {"layout", layout_json(inspection)},
      {"groups", std::move(groups)},           {"waits", waits_json(inspection)},
      {"findings", std::move(findings)},       {"cannot_tell", Json(cannot_tell)}};
}

}  // namespace verify
