#include "verify/program/power_report.h"

#include <fmt/format.h>
#include <optional>

#include "verify/campaign/case_request.h"
#include "verify/exam/power.h"
#include "verify/output/json.h"
#include "verify/output/phrases.h"
#include "verify/output/progress.h"
#include "verify/output/text_table.h"
#include "verify/program/commands.h"
#include "verify/program/interrupt.h"
#include "verify/properties/over_benches.h"
#include "verify/requests/case_options.h"
#include "verify/requests/command_requests.h"

namespace verify {

namespace {

std::string text_of_bits(const std::optional<int>& bits, sim::DType dtype) {
  if (!bits) return "";
  const bool is_any = dtype == sim::DType::field && *bits == kMostBitsOfPower;
  return is_any ? "any" : fmt::format("{}", *bits);
}

void write_power(const PowerRequest& request, const Power& power, bool as_json_text, const Output& output) {
  const char* verdict = power.is_whole ? "verified" : "interrupted";
  if (as_json_text) {
    Json rows = Json::array();
    for (const PowerRow& row : power.rows) {
      Json json = {{"case", row.the_case->name()}, {"site", row.site}, {"property", row.property->name}};
      for (std::size_t i = 0; i < row.bits.size(); ++i)
        json[std::string(sim::name_of(kDTypesOfPower[i]))] = row.bits[i] ? Json(*row.bits[i]) : Json(nullptr);
      rows.push_back(std::move(json));
    }
    output.out << one_line({{"verdict", verdict},
                            {"seed", request.seed},
                            {"interrupted", !power.is_whole},
                            {"most_bits", kMostBitsOfPower},
                            {"rows", std::move(rows)}});
    return;
  }
  std::vector<Column> columns = {{"case"}, {"site"}, {"property"}};
  for (const sim::DType dtype : kDTypesOfPower)
    columns.push_back({std::string(sim::name_of(dtype)), Align::right});
  TextTable table(std::move(columns));
  for (const PowerRow& row : power.rows) {
    std::vector<std::string> cells = {row.the_case->name(), row.site, row.property->name};
    for (std::size_t i = 0; i < row.bits.size(); ++i)
      cells.push_back(text_of_bits(row.bits[i], kDTypesOfPower[i]));
    table.add(std::move(cells));
  }
  output.out << table.text()
             << fmt::format(
                    "\n{}: the largest k at which a factor of 1 + 2^-k is caught, up to {}; {}, seed {}\n",
                    verdict, kMostBitsOfPower, counted(std::ssize(power.rows), "row"), request.seed);
}

}  // namespace

int exam_power(const Call& call, const CaseList& cases) {
  const CaseOptions options = case_options(call.line.settings);
  const CampaignRequest campaign = requested_campaign(options, cases);
  const PowerRequest request{.cases = campaign.cases, .seed = campaign.seed, .max_world = campaign.max_world};
  std::vector<Bench> benches(benches_for(options.threads));
  const InterruptKept interrupt;
  std::optional<Progress> progress;
  const Power power =
      power_of(request, benches, [&](std::size_t done, std::size_t total, const std::string& what) {
        if (!progress) progress.emplace(call.output.err, call.output.progress, total, "sites");
        progress->step(done, what);
        return !interrupt.is_asked();
      });
  progress.reset();
  write_power(request, power, asks_for_json(call.line), call.output);
  return power.is_whole ? kVerified : kInterrupted;
}

}  // namespace verify
