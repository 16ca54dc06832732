#include "verify/output/report_json.h"

#include <utility>

#include "verify/output/json.h"

namespace verify {

Json refusal_json(const sim::Refusal& refusal) {
  return {{"code", refusal.code},
          {"option", refusal.option},
          {"numbers", refusal.numbers},
          {"rule", refusal.rule},
          {"hint", refusal.hint}};
}

void add_refusals(Json& document, const sim::Refusal& first, const std::vector<sim::Refusal>& further) {
  document["error"] = refusal_json(first);
  if (further.empty()) return;
  document["further_errors"] = json_list(further, refusal_json);
}

Json warnings_json(const std::vector<sim::Warning>& warnings) {
  return json_list(warnings, [](const sim::Warning& warning) {
    return Json{{"name", warning.name}, {"message", warning.message}};
  });
}

namespace {

Json call_json(const sim::CallFacts& call) {
  Json json = {{"rank", call.rank}, {"state", call.state}};
  if (call.group.empty()) return json;  // the rank made no call
  json["group"] = call.group;
  json["sequence"] = call.sequence;
  json["operation"] = sim::name_of(call.operation);
  if (sim::moves_data(call.operation)) {
    json["count"] = call.count;
    json["dtype"] = sim::name_of(call.dtype);
  }
  if (sim::has_reduce_op(call.operation)) json["reduction"] = sim::name_of(call.reduce_op);
  if (call.root_or_peer >= 0) json[sim::has_root(call.operation) ? "root" : "peer"] = call.root_or_peer;
  json["site"] = call.site;
  json["file"] = call.file;
  json["line"] = call.line;
  return json;
}

}  // namespace

Json finding_json(const sim::Finding& finding) {
  return {{"code", finding.code},
          {"sentence", finding.sentence},
          {"calls", json_list(finding.calls, call_json)},
          {"more_calls", finding.more_calls},
          {"rule", finding.rule},
          {"hint", finding.hint}};
}

Json ledger_json(const sim::LedgerRow& row) {
  return {{"kind", row.kind},
          {"site", row.site},
          {"operation", sim::name_of(row.operation)},
          {"dtype", sim::name_of(row.dtype)},
          {"ranks", row.ranks},
          {"calls", row.calls},
          {"elements", row.elements},
          {"bytes_inside_node", row.bytes_inside},
          {"bytes_across_nodes", row.bytes_across},
          {"most_bytes_of_a_rank", row.most_bytes}};
}

}  // namespace verify
