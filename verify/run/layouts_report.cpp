#include "verify/run/layouts_report.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <vector>

#include "sim/comm/process_group.h"
#include "verify/output/output.h"
#include "verify/output/phrases.h"
#include "verify/output/report_json.h"
#include "verify/output/text_table.h"
#include "verify/run/guest_report.h"

namespace verify {

namespace {

const char* verdict_of(const LayoutRun& layout) {
  if (layout.is_broken()) return "broken";
  if (!layout.compared.incomparable.empty()) return "incomparable";
  return layout.compared.holds() ? "holds" : "FALSIFIED";
}

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

std::string table_of(const LayoutsRequest& request, const LayoutsRun& run) {
  TextTable table({"layout", ">ranks", "verdict", ">values", ">wrong", ">worst slack"});
  for (std::size_t i = 0; i < run.layouts.size(); ++i) {
    const LayoutRun& layout = run.layouts[i];
    const ComparedValues& compared = layout.compared;
    table.row(layout.name, request.layouts[i].request.command.ranks, verdict_of(layout),
              grouped_digits(compared.values), grouped_digits(std::ssize(compared.wrong)),
              compared.holds() ? fmt::format("{:.1e}", compared.worst_slack) : "-");
  }
  return table.text("  ");
}

/// Returns "the gradient of x in step 0 on ranks 0, 1: it is zero".
std::string sentence_of(const WrongValue& wrong) {
  const std::vector<int> ranks(wrong.ranks.begin(), wrong.ranks.end());
  const std::string where = ranks.empty() ? "" : " on " + sim::text_of_ranks(ranks);
  return fmt::format("{}{}: {}", text_of(wrong.key), where, wrong.what);
}

/// Returns what is wrong with a layout; "" if nothing is.
std::string told(const LayoutRun& layout, const GuestRequest& request) {
  if (layout.is_broken())
    return fmt::format("\n{}: it does not run to its end\n{}", layout.name,
                       guest_run_text(request, layout.run));
  const ComparedValues& compared = layout.compared;
  if (!compared.incomparable.empty())
    return fmt::format("\n{}: its numbers are not those of the reference: {}\n", layout.name,
                       compared.incomparable);
  if (compared.wrong.empty()) return "";
  std::string text = fmt::format("\n{}: {}\n", layout.name, sentence_of(compared.wrong.front()));
  constexpr std::size_t kShown = 3;
  for (std::size_t i = 1; i < std::min(kShown, compared.wrong.size()); ++i)
    text += fmt::format("  then       {}\n", sentence_of(compared.wrong[i]));
  if (compared.wrong.size() > kShown)
    text += fmt::format("  ... and {} more\n", compared.wrong.size() - kShown);
  return text + fmt::format("  reproduce  {}\n", request.world.reproduce);
}

/// Says what the verdict is about.
std::string bound(const LayoutsRequest& request, const LayoutsRun& run) {
  std::vector<std::string> kinds;
  for (const PublishedKind kind : run.kinds) kinds.push_back(plural_of(kind));
  std::string text = fmt::format(
      "\ncompared   {} of {}, in f64 on the CPU, without dropout{}\nreference  {}, as {}\n",
      fmt::join(kinds, ", "), counted(run.steps, "step"),
      request.draws_weights ? "; weights of Megatron's models are drawn from their names" : "",
      text_of(request.reference.request.words), counted(request.reference.request.command.ranks, "rank"));
  if (!run.left_out.empty())
    text += fmt::format("left out   {}, whose place in the model is not known: {}\n",
                        counted(std::ssize(run.left_out), "parameter"), fmt::join(run.left_out, ", "));
  return text;
}

std::string first_line(const LayoutsRun& run) {
  const auto holds = [](const LayoutRun& layout) { return layout.compared.holds(); };
  const std::int64_t holding = std::ranges::count_if(run.layouts, holds);
  return fmt::format("{}: {} of {} layouts compute what the reference computes\n", verdict_of(run), holding,
                     std::ssize(run.layouts));
}

Json json_of(const LayoutRun& layout, int ranks) {
  Json one = {
      {"name", layout.name},
      {"ranks", ranks},
      {"verdict", layout.compared.holds() || layout.is_broken() || !layout.compared.incomparable.empty()
                      ? verdict_of(layout)
                      : "falsified"},
      {"values", layout.compared.values},
      {"worst_slack", layout.compared.worst_slack},
      {"incomparable", layout.compared.incomparable},
      {"wrong", Json::array()},
      {"findings", Json::array()}};
  for (const WrongValue& wrong : layout.compared.wrong) {
    Json value = {{"step", wrong.key.step}, {"name", wrong.key.name},  {"value", text_of(wrong.key)},
                  {"ranks", Json::array()}, {"elements", wrong.wrong}, {"what", wrong.what}};
    for (const int rank : wrong.ranks) value["ranks"].push_back(rank);
    one["wrong"].push_back(std::move(value));
  }
  for (const sim::Finding& finding : layout.run.report.findings)
    one["findings"].push_back(finding_json(finding));
  return one;
}

}  // namespace

std::string layouts_text(const LayoutsRequest& request, const LayoutsRun& run) {
  if (!run.reference.is_clean())
    return "broken: the reference does not run to its end\n\n" +
           guest_run_text(request.reference.request, run.reference);
  if (run.layouts.empty())
    return "nothing compared: the program makes no step of an optimizer, and publishes no values itself\n";
  std::string text = first_line(run) + "\n" + table_of(request, run);
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
                   {"layouts", Json::array()},
                   {"findings", Json::array()},
                   {"reproduce", request.reference.request.world.reproduce}};
  for (std::size_t i = 0; i < run.layouts.size(); ++i)
    document["layouts"].push_back(json_of(run.layouts[i], request.layouts[i].request.command.ranks));
  for (const std::string& name : run.left_out) document["left_out"].push_back(name);
  for (const sim::Finding& finding : run.reference.report.findings)
    document["findings"].push_back(finding_json(finding));
  return document;
}

}  // namespace verify
