#include "verify/inspect/inspection_text.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <map>
#include <set>
#include <utility>

#include "sim/base/printable_text.h"
#include "verify/inspect/call_meaning.h"
#include "verify/output/phrases.h"
#include "verify/output/text_table.h"
#include "verify/output/wrapped_text.h"

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
  return group.description == "default_pg" ? "default" : fmt::format("'{}'", name);
}

std::string call_label(const Job& job, const HoldingCall& call) {
  if (call.call < 0) return fmt::format("call {}", call.sequence);
  const Recording& recording = job.recordings[call.dump];
  const RecordedCall& own = recording.calls[static_cast<std::size_t>(call.call)];
  return sim::printable_text(recording.operation(own).substr(0, 60));
}

/// Returns what a call looks like; nothing is known of one that only "pg_status" knows.
CallMeaning meaning_of(const Job& job, const HoldingCall& call) {
  if (call.call < 0) return {};
  return call_meaning(job, call.dump, static_cast<std::size_t>(call.call));
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
  const sim::Layout& layout = judged.layout;
  const GroupComparison& comparison = judged.comparison;
  const std::string sizes = fmt::format(
      "{} ranks, tp {}, cp {}, dp {}, pp {}; experts: etp {}, ep {}, edp {}; order {} ({}). {} of {} groups "
      "of the "
      "dumps are equal to groups of this layout{}.",
      layout.world_size, layout.tp, layout.cp, layout.dp, layout.pp, layout.etp, layout.ep, layout.edp,
      layout.order, judged.is_inferred ? "a guess, from the groups of the dumps" : "as given",
      comparison.groups - comparison.differing, comparison.groups,
      comparison.not_judged > 0 ? fmt::format("; {} not judged", comparison.not_judged) : "");
  return "\n" + wrapped("layout", 8, sizes, columns);
}

std::string waits_text(const Inspection& inspection) {
  const Job& job = inspection.job;
  std::vector<const HoldingCall*> calls;
  for (const HoldingCall& call : inspection.waiting.calls) calls.push_back(&call);
  if (calls.empty()) return "";
  TextTable table({"ranks", "wait in", ">call", "of group", "for", "looks like"});
  const std::size_t shown = rows_of(inspection, calls.size());
  for (std::size_t i = 0; i < shown; ++i) {
    const HoldingCall& call = *calls[i];
    table.row(plain_ranks(call.waiting), call_label(job, call), call.sequence,
              group_label(job.groups[call.group]), call.awaits() ? plain_ranks(call.targets()) : "-",
              meaning_of(job, call).text);
  }
  return "\nwho waits for whom, nearest to the cause first\n" + table.text("  ") +
         rest_of(shown, calls.size(), "calls");
}

/// The innermost frames of a call that are of the program.
std::string stack_text(const Recording& recording, const RecordedCall& call) {
  std::string text;
  const std::vector<std::string_view> frames = program_frames(recording, call);
  for (std::size_t i = 0; i < std::min(frames.size(), kMostShownFrames); ++i)
    text += fmt::format("    {}\n", sim::printable_text(std::string(frames[i])));
  return text;
}

/// The stacks of the last calls of ranks that stand still, and of the calls that wait for suspects.
std::string frames_text(const Inspection& inspection) {
  std::string text;
  std::size_t shown = 0;
  for (const Suspect& suspect : inspection.suspects) {
    const RecordedCall* const last = last_call_of(inspection.job, suspect);
    if (last == nullptr || last->frames == 0 || shown == 4) continue;
    ++shown;
    const Recording& recording = *inspection.job.find_recording(suspect.rank);
    text += fmt::format("  rank {} after its last call, {}\n{}", suspect.rank,
                        sim::printable_text(recording.operation(*last).substr(0, 60)),
                        stack_text(recording, *last));
  }
  for (const HoldingCall& call : inspection.waiting.calls) {
    if (call.call < 0 || shown == 4) continue;
    const Recording& recording = inspection.job.recordings[call.dump];
    const RecordedCall& own = recording.calls[static_cast<std::size_t>(call.call)];
    if (own.frames == 0) continue;
    ++shown;
    text += fmt::format("  rank {} in {}\n{}", recording.rank, call_label(inspection.job, call),
                        stack_text(recording, own));
  }
  return text.empty() ? "" : "\nstacks of the program, the innermost frame first\n" + text;
}

std::string list_text(const char* title, const std::vector<std::string>& sentences, std::size_t columns) {
  if (sentences.empty()) return "";
  std::string text = fmt::format("\n{}\n", title);
  for (const std::string& sentence : sentences) text += wrapped(" -", 4, sentence, columns);
  return text;
}

Json ranks_json(const std::vector<int>& ranks) { return Json(ranks); }
Json json_of(const std::string& text) { return text.empty() ? Json(nullptr) : Json(text); }

Json layout_json(const Inspection& inspection) {
  if (!inspection.layout) return nullptr;
  const JudgedLayout& judged = *inspection.layout;
  const sim::Layout& layout = judged.layout;
  return {{"inferred", judged.is_inferred},
          {"world_size", layout.world_size},
          {"order", layout.order},
          {"tp", layout.tp},
          {"cp", layout.cp},
          {"dp", layout.dp},
          {"pp", layout.pp},
          {"ep", layout.ep},
          {"etp", layout.etp},
          {"edp", layout.edp},
          {"groups_judged", judged.comparison.groups},
          {"groups_differing", judged.comparison.differing},
          {"groups_not_judged", judged.comparison.not_judged}};
}

/// The calls that hold ranks, nearest to the cause first.
Json waits_json(const Inspection& inspection) {
  const Job& job = inspection.job;
  const auto if_known = [](std::int64_t number) { return number > 0 ? Json(number) : Json(nullptr); };
  Json waits = Json::array();
  for (const HoldingCall& call : inspection.waiting.calls) {
    const CallMeaning meaning = meaning_of(job, call);
    Json row = {{"ranks", ranks_json(call.waiting)},
                {"for", ranks_json(call.awaited)},
                {"absent", ranks_json(call.absent)},
                {"group", call.group},
                {"operation", call.call < 0 ? Json(nullptr) : Json(call_label(job, call))},
                {"sequence", call.sequence},
                {"is_message", call.is_message}};
    row["looks_like"] = meaning.text.empty() ? Json(nullptr) : Json(meaning.text);
    row["bucket"] = if_known(meaning.bucket);
    row["buckets"] = if_known(meaning.buckets);
    row["line"] = json_of(line_of(job, call));
    waits.push_back(std::move(row));
  }
  return waits;
}

/// The groups in which the layout and a dump differ, by their ranks and descriptions.
std::set<std::pair<std::string, std::vector<int>>> differing_groups(const Inspection& inspection) {
  std::set<std::pair<std::string, std::vector<int>>> differing;
  if (!inspection.layout) return differing;
  for (const GroupDifference& difference : inspection.layout->comparison.differences)
    differing.insert({difference.description, difference.ranks});
  return differing;
}

}  // namespace

std::string inspection_text(const Inspection& inspection, int given_columns) {
  const auto columns = static_cast<std::size_t>(std::clamp(given_columns, 60, 110));
  std::vector<std::string> findings;
  for (const InspectionFinding& finding : inspection.findings) findings.push_back(finding.text);
  const std::size_t shown = rows_of(inspection, findings.size());
  const std::string rest = rest_of(shown, findings.size(), "findings");
  findings.resize(shown);
  std::string text = wrapped("", 0, inspection.verdict, columns) + suspects_text(inspection) +
                     layout_text(inspection, columns) + waits_text(inspection) + frames_text(inspection) +
                     list_text("findings", findings, columns) + rest +
                     list_text("what these dumps cannot tell", inspection.cannot_tell, columns) +
                     list_text("files", inspection.notes, columns);
  return text;
}

Json inspection_json(const Inspection& inspection) {
  Json suspects = Json::array();
  for (const Suspect& suspect : inspection.suspects) {
    const RecordedCall* const last = last_call_of(inspection.job, suspect);
    Json row = {
        {"rank", suspect.rank}, {"reason", suspect.reason}, {"kind", suspect_kind_name(suspect.kind)}};
    row["last_line"] = last == nullptr
                           ? Json(nullptr)
                           : json_of(line_of(*inspection.job.find_recording(suspect.rank), *last));
    suspects.push_back(std::move(row));
  }
  const auto differing = differing_groups(inspection);
  Json groups = Json::array();
  for (const JobGroup& group : inspection.job.groups) {
    Json row = {{"name", group.name}, {"description", group.description}, {"kind", group.kind}};
    row["ranks"] = ranks_json(group.members);
    const bool is_judged = inspection.layout && group.has_known_members && !group.kind.empty();
    row["equal"] = is_judged ? Json(!differing.contains({group.description, group.members})) : Json(nullptr);
    groups.push_back(std::move(row));
  }
  Json findings = Json::array();
  for (const InspectionFinding& finding : inspection.findings)
    findings.push_back(
        {{"finding", finding.what}, {"text", finding.text}, {"ranks", ranks_json(finding.ranks)}});
  std::vector<std::string> cannot_tell = inspection.cannot_tell;
  cannot_tell.insert(cannot_tell.end(), inspection.notes.begin(), inspection.notes.end());
  return {{"verdict", inspection.verdict},     {"suspects", std::move(suspects)},
          {"layout", layout_json(inspection)}, {"groups", std::move(groups)},
          {"waits", waits_json(inspection)},   {"findings", std::move(findings)},
          {"cannot_tell", Json(cannot_tell)}};
}

}  // namespace verify
