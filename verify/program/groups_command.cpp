#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <optional>

#include "sim/base/printable_text.h"
#include "sim/layout/kind_table.h"
#include "verify/checks/group_comparison.h"
#include "verify/output/json.h"
#include "verify/output/output_file.h"
#include "verify/output/phrases.h"
#include "verify/output/refusal_table.h"
#include "verify/output/report_json.h"
#include "verify/output/text_table.h"
#include "verify/program/commands.h"
#include "verify/program/report_files.h"
#include "verify/program/run_from.h"
#include "verify/report/groups_html.h"
#include "verify/requests/command_requests.h"
#include "verify/requests/group_dump.h"
#include "verify/views/groups_view.h"
#include "verify/vocabulary/nearest_name.h"
#include "verify/vocabulary/option_vocabulary.h"

namespace verify {

namespace {

std::vector<const sim::GroupKind*> selected_kinds(const GroupsRequest& request) {
  const sim::Layout& layout = request.layout;
  std::vector<const sim::GroupKind*> selected;
  const std::vector<std::string>& names = request.kinds;
  for (const sim::GroupKind& kind : layout.kinds) {
    if (names.empty() || std::ranges::find(names, kind.name()) != names.end()) selected.push_back(&kind);
  }
  for (const std::string& name : names) {
    if (layout.find(name) != nullptr) continue;
    const std::vector<std::string> present = names_of(layout.kinds, &sim::GroupKind::name);
    const sim::KindRow* row = sim::find_kind(name);
    const std::string nearest = row != nullptr ? std::string(row->same_as) : nearest_name(name, present);
    const std::string hint = nearest.empty() ? "shardproof list" : "--kind " + nearest;
    if (row != nullptr) refuse_by("absent_kind", "--kind", name, fmt::join(present, ", "), hint);
    refuse_by("unknown_kind", "--kind", name, hint);
  }
  return selected;
}

std::optional<int> selected_rank(const sim::Layout& layout, const std::optional<std::int64_t>& rank) {
  if (!rank) return std::nullopt;
  const std::int64_t last = layout.first_rank + layout.grid_size - 1;
  if (*rank >= layout.first_rank && *rank <= last) return static_cast<int>(*rank);
  refuse_by("rank_outside_grid", "--rank", *rank, layout.first_rank, last);
}

/// Returns the rank whose groups are compared: that of --rank, or that of a dump of one rank.
std::optional<int> compared_rank(const GroupsRequest& request) {
  const std::optional<std::int64_t>& dumped = request.against->rank;
  if (dumped && request.rank && *request.rank != *dumped)
    refuse_by("dump_rank", "--rank", *request.rank, *dumped);
  return selected_rank(request.layout, dumped ? dumped : request.rank);
}

// ---- how the groups of a layout and those of a running job differ: the answer, a table of kinds, and the
// differences; or one JSON document

constexpr std::size_t kMostShown = 20;  // differences that the text shows

const char* missing_word(const GroupDump& dump) { return dump.is_partial() ? "not in the dump" : "missing"; }

std::string answer(const GroupComparison& result, const GroupDump& dump) {
  const std::string file = sim::printable_text(dump.path);
  std::string text = result.world.empty() ? "" : result.world + "\n";
  if (result.differing == 0) {
    text += fmt::format("{}: no group differs; {} of the dump are those of the layout\n", file,
                        counted(result.groups, "group"));
  } else {
    text += fmt::format(
        "{}: {}\n", file,
        result.differing == 1 ? "1 group differs" : fmt::format("{} groups differ", result.differing));
  }
  if (dump.is_partial())
    text +=
        "a flight recorder knows only the groups in which its rank has communicated: others may be absent\n";
  if (result.not_judged > 0)
    text += fmt::format("{} without a description, or of a kind that is not modelled, {} not judged\n",
                        counted(result.not_judged, "group"), result.not_judged == 1 ? "is" : "are");
  return text;
}

std::string table(const GroupComparison& result, const GroupDump& dump) {
  TextTable table({"kind", ">groups", ">equal", fmt::format(">{}", missing_word(dump)), ">foreign",
                   ">other order", "description"});
  for (const KindComparison& row : result.kinds) {
    table.row(row.kind.empty() ? "-" : row.kind, row.groups, row.equal, row.missing, row.foreign,
              row.other_order, row.description);
  }
  return table.text();
}

std::string differences_text(const GroupComparison& result) {
  if (result.differing == 0) return "";
  TextTable table({"kind", "difference", "ranks", ""});
  const std::size_t shown = std::min(result.differences.size(), kMostShown);
  for (std::size_t i = 0; i < shown; ++i) {
    const GroupDifference& one = result.differences[i];
    const bool is_order = one.what == GroupDifference::What::other_order;
    table.row(one.kind.empty() ? one.description : one.kind,
              is_order ? "other order" : difference_name(one.what), ranks_text(one.ranks), one.explanation);
  }
  std::string text = "\n" + table.text();
  const std::int64_t more = result.differing - static_cast<std::int64_t>(shown);
  if (more > 0) text += fmt::format("and {} more; --format json has up to {}\n", more, kMostDifferences);
  return text;
}

Json as_json(const GroupComparison& result, const ComparedGroups& ours, const GroupDump& dump) {
  const auto kind_json = [&](const KindComparison& row) {
    return Json{{"kind", row.kind},
                {"description", row.description},
                {"groups", row.groups},
                {"equal", row.equal},
                {dump.is_partial() ? "not_in_dump" : "missing", row.missing},
                {"foreign", row.foreign},
                {"other_order", row.other_order}};
  };
  const auto difference_json = [](const GroupDifference& one) {
    return Json{{"difference", difference_name(one.what)},
                {"kind", one.kind},
                {"description", one.description},
                {"ranks", one.ranks},
                {"explanation", one.explanation}};
  };
  Json document = {{"world_size", ours.layout.world_size},
                   {"against", dump.path},
                   {"form", dump_form_name(dump.form)},
                   {"equal", result.is_equal()},
                   {"dump_world_size", dump.world_size},
                   {"differing", result.differing},
                   {"not_judged", result.not_judged},
                   {"kinds", json_list(result.kinds, kind_json)},
                   {"differences", json_list(result.differences, difference_json)},
                   {"warnings", warnings_json(ours.layout.warnings)}};
  if (ours.rank) document["rank"] = *ours.rank;
  return document;
}

/// Returns kVerified where nothing differs, and else kFalsified.
int show_groups_against(const Call& call, const ComparedGroups& ours, const GroupDump& dump) {
  const GroupComparison result = compare_groups(ours, dump);
  if (asks_for_json(call.line)) {
    write_json(call, as_json(result, ours, dump));
  } else {
    call.output.out << answer(result, dump) << differences_text(result) << "\n"
                    << table(result, dump) << warnings_text(ours.layout.warnings);
  }
  return result.is_equal() ? kVerified : kFalsified;
}

/// The kinds on the page: those of --kind, or else those that a training step sends over.
std::vector<const sim::GroupKind*> page_kinds(const GroupsRequest& request, const GroupsView& view) {
  if (!request.kinds.empty()) return view.kinds;
  std::vector<const sim::GroupKind*> kinds;
  for (const char* name : {"tp", "cp", "dp-cp", "pp", "embd", "ep", "etp", "edp", "mp"})
    if (const sim::GroupKind* kind = view.layout.find(name)) kinds.push_back(kind);
  return kinds;
}

}  // namespace

int run_groups(const Call& call) {
  const GroupsRequest request = groups_request(call.line);
  const std::optional<OutputFile> page = output_file(call.line, "report");
  if (page && request.against) refuse_without_effect("report", "groups' with '--against");
  if (request.against) {
    const ComparedGroups ours{request.layout, selected_kinds(request), request.kinds.empty(),
                              compared_rank(request)};
    return show_groups_against(call, ours, *request.against);
  }
  const GroupsView view{request.layout, selected_kinds(request), selected_rank(request.layout, request.rank)};
  if (page) page->write(groups_html(view.layout, request.nodes, page_kinds(request, view)));
  if (asks_for_json(call.line)) {
    write_groups_json(call.output.out, view, last_members(call));
  } else {
    call.output.out << groups_text(view, request.nodes, call.output.colour);
  }
  return kVerified;
}

}  // namespace verify
