#include "verify/run/layouts_report.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <vector>

#include "verify/output/output.h"
#include "verify/output/phrases.h"
#include "verify/output/report_json.h"
#include "verify/run/compared_report.h"
#include "verify/run/guest_report.h"
#include "verify/run/live_layout.h"
#include "verify/run/watched_report.h"

namespace verify {

namespace {

const char* verdict_of(const LayoutsRun& run) {
  switch (run.exit_code()) {
    case kVerified:
      return "verified";
    case kBroken:
      return "broken";
    case kUnavailable:
      return "nothing compared";
    default:
      return "falsified";
  }
}

/// Returns a row for each layout.
std::vector<ComparedRow> rows_of(const LayoutsRequest& request, const LayoutsRun& run) {
  std::vector<ComparedRow> rows;
  for (std::size_t i = 0; i < run.layouts.size(); ++i)
    rows.push_back({run.layouts[i].name, request.layouts[i].request.command.ranks, run.layouts[i].is_broken(),
                    run.layouts[i].compared});
  return rows;
}

/// Returns which groups of a layout have other members than Megatron gives them; "" if none has.
std::string groups_text(const LayoutRun& layout) {
  const std::string warnings = layout.run.layout ? warnings_of_groups(*layout.run.layout) : "";
  return warnings.empty()
             ? ""
             : fmt::format("\n{}: its groups are not those of this layout\n{}", layout.name, warnings);
}

/// Returns what is wrong with a layout; "" if nothing is.
std::string told(const LayoutRun& layout, const GuestRequest& request) {
  if (layout.is_broken())
    return fmt::format("\n{}: it does not run to its end\n{}", layout.name,
                       guest_run_text(request, layout.run));
  return groups_text(layout) +
         wrong_text(layout.name, layout.compared, "  reproduce  " + request.world.reproduce + "\n") +
         watch_text(layout.name, layout.watched);
}

/// Says what the verdict is about.
std::string bound(const LayoutsRequest& request, const LayoutsRun& run) {
  const char* const floats =
      request.twin ? "in the program's floats (bound: 16 times the errors of the reference against f64)"
                   : "in f64";
  std::string text = fmt::format(
      "\ncompared   {} of {}, {}, on the CPU, without dropout{}\nreference  {}, as {}\n",
      kinds_text(rows_of(request, run)), counted(run.steps, "step"), floats,
      request.draws_weights ? "; weights of Megatron's models are drawn from their names" : "",
      text_of(request.reference.request.words), counted(request.reference.request.command.ranks, "rank"));
  return text + left_out_text(run.left_out) + unmatched_text(run.watched);
}

/// Says how a program is compared that does not take Megatron's options.
std::string hint_of_options(const LayoutsRequest& request) {
  if (request.layouts.front().name == kTheProgram) return "";
  return "\n--layouts gives the program options of Megatron. Another program is compared with itself on one "
         "rank\nby --ranks N --against ''\n";
}

Json json_of(const ComparedRow& row, const LayoutRun& layout) {
  Json one = compared_json(row);
  one["watched"] = watch_json(layout.watched);
  one["groups"] = layout.run.layout ? sentences_of_groups(*layout.run.layout) : std::vector<std::string>{};
  one["findings"] = Json::array();
  for (const sim::Finding& finding : layout.run.report.findings)
    one["findings"].push_back(finding_json(finding));
  return one;
}

}  // namespace

std::string layouts_text(const LayoutsRequest& request, const LayoutsRun& run) {
  if (!run.reference.is_clean())
    return "broken: the reference does not run to its end\n\n" +
           guest_run_text(request.reference.request, run.reference) + hint_of_options(request);
  if (run.layouts.empty())
    return "nothing compared: the program makes no step of an optimizer, and publishes no values itself\n";
  std::string text = fmt::format("{}: {}", verdict_of(run), compared_table("layout", rows_of(request, run)));
  for (std::size_t i = 0; i < run.layouts.size(); ++i)
    text += told(run.layouts[i], request.layouts[i].request);
  return text + bound(request, run);
}

Json layouts_json(const LayoutsRequest& request, const LayoutsRun& run) {
  Json document = {{"verdict", verdict_of(run)},
                   {"program", text_of(request.layouts.front().request.words)},
                   {"reference", text_of(request.reference.request.words)},
                   {"steps", run.steps},
                   {"left_out", Json::array()},
                   {"unmatched", unmatched_json(run.watched)},
                   {"layouts", Json::array()},
                   {"findings", Json::array()},
                   {"reproduce", request.reference.request.world.reproduce}};
  const std::vector<ComparedRow> rows = rows_of(request, run);
  for (std::size_t i = 0; i < rows.size(); ++i)
    document["layouts"].push_back(json_of(rows[i], run.layouts[i]));
  for (const std::string& name : run.left_out) document["left_out"].push_back(name);
  for (const sim::Finding& finding : run.reference.report.findings)
    document["findings"].push_back(finding_json(finding));
  return document;
}

}  // namespace verify
