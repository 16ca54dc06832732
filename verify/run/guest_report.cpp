#include "verify/run/guest_report.h"

#include <fmt/format.h>
#include <map>

#include "verify/output/phrases.h"
#include "verify/output/report_json.h"
#include "verify/output/text_table.h"
#include "verify/run/live_layout.h"

namespace verify {

namespace {

std::int64_t calls_of(const GuestRun& run) {
  std::int64_t calls = 0;
  for (const sim::LedgerRow& row : run.report.ledger) calls += row.calls;
  return calls;
}

/// Returns the calls, and the bytes that a ring sends for them, by the kind of group and the operation.
std::string ledger_table(const sim::RunReport& report) {
  std::map<std::pair<std::string, sim::Operation>, sim::LedgerRow> sums;
  for (const sim::LedgerRow& row : report.ledger) {
    sim::LedgerRow& sum = sums[{row.kind, row.operation}];
    sum.calls += row.calls;
    sum.elements += row.elements;
    sum.bytes_inside += row.bytes_inside + row.bytes_across;
  }
  TextTable table({"group", "operation", ">calls", ">elements", ">sent by a ring"});
  for (const auto& [key, sum] : sums)
    table.row(key.first, sim::name_of(key.second), grouped_digits(sum.calls), grouped_digits(sum.elements),
              byte_text(sum.bytes_inside));
  return table.text("  ");
}

std::string verdict(const GuestRequest& request, const GuestRun& run) {
  if (run.is_clean() && run.checks_nothing) return fmt::format("ran: {}\n", sentence_of_calls(request, run));
  if (run.is_clean()) return fmt::format("verified: {}\n", sentence_of_calls(request, run));
  std::string found = counted(std::ssize(run.report.findings), "finding");
  if (!run.unmet_faults.empty())
    found += fmt::format(", {} not met", counted(std::ssize(run.unmet_faults), "planted fault"));
  return fmt::format("broken: {} on {} after {} calls\n", found, counted(request.command.ranks, "rank"),
                     grouped_digits(calls_of(run)));
}

const char* word_of_verdict(const GuestRun& run) {
  if (!run.is_clean()) return "broken";
  return run.checks_nothing ? "nothing checked" : "verified";
}

/// Says what the verdict is about.
std::string bound(const GuestRequest& request, const GuestRun& run) {
  const std::string ran = fmt::format(
      "ran     {}, as {} on {}\n", text_of(request.words), counted(request.command.ranks, "rank"),
      request.command.keeps_off_gpu ? "the CPU" : "the GPU of this machine if it has one, or its CPU");
  if (run.checks_nothing) return ran;
  return fmt::format(
      "{}{}  the order, the kinds and the sizes of the calls, with these inputs. Whether values are right is "
      "not judged.\n",
      ran, run.is_clean() ? "proved" : "judged");
}

}  // namespace

std::string sentence_of_calls(const GuestRequest& request, const GuestRun& run) {
  if (run.checks_nothing)
    return fmt::format("{} made no calls; nothing was checked", counted(request.command.ranks, "rank"));
  return fmt::format("{} made {} calls; all ranks ended, and the calls of every group agree",
                     counted(request.command.ranks, "rank"), grouped_digits(calls_of(run)));
}

std::string guest_run_text(const GuestRequest& request, const GuestRun& run) {
  std::string text = verdict(request, run);
  for (const sim::Finding& finding : run.report.findings)
    text += "\n" + sim::text_of(finding, run.report.reproduce);
  for (const std::string& fault : run.unmet_faults)
    text += fmt::format("\nno call had the planted fault '{}'\n", fault);
  for (const sim::Finding& warning : run.report.warnings) text += "\nwarning " + sim::text_of(warning, "");
  if (!run.report.ledger.empty()) text += "\n" + ledger_table(run.report);
  text += "\n" + bound(request, run);
  if (run.layout) text += live_layout_text(*run.layout);
  if (run.calls) text += judged_calls_text(*run.calls);
  return text;
}

Json guest_run_json(const GuestRequest& request, const GuestRun& run) {
  Json document = {{"verdict", word_of_verdict(run)},
                   {"program", text_of(request.words)},
                   {"ranks", request.command.ranks},
                   {"calls", calls_of(run)},
                   {"findings", Json::array()},
                   {"warnings", Json::array()},
                   {"ledger", Json::array()},
                   {"ended", Json::array()},
                   {"unmet_faults", Json::array()},
                   {"run_hash", fmt::format("{:016x}", run.report.run_hash)},
                   {"schedule_hash", fmt::format("{:016x}", run.report.schedule_hash)},
                   {"reproduce", request.world.reproduce},
                   {"layout", run.layout ? judged_layout_json(*run.layout) : Json(nullptr)},
                   {"closed_form", run.calls ? judged_calls_json(*run.calls) : Json(nullptr)}};
  for (const sim::Finding& finding : run.report.findings)
    document["findings"].push_back(finding_json(finding));
  for (const sim::Finding& warning : run.report.warnings)
    document["warnings"].push_back(finding_json(warning));
  for (const sim::LedgerRow& row : run.report.ledger) document["ledger"].push_back(ledger_json(row));
  for (const std::string& ended : run.ended) document["ended"].push_back(ended);
  for (const std::string& fault : run.unmet_faults) document["unmet_faults"].push_back(fault);
  return document;
}

}  // namespace verify
