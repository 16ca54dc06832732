#include "verify/report_json.h"

#include <nlohmann/json.hpp>
#include <utility>

namespace verify {

nlohmann::ordered_json refusal_json(const sim::Refusal& refusal) {
  return {{"code", refusal.code},
          {"option", refusal.option},
          {"numbers", refusal.numbers},
          {"rule", refusal.rule},
          {"hint", refusal.hint}};
}

nlohmann::ordered_json warnings_json(const std::vector<sim::Warning>& warnings) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const sim::Warning& warning : warnings)
    list.push_back({{"name", warning.name}, {"message", warning.message}});
  return list;
}

namespace {

nlohmann::ordered_json call_json(const sim::CallFacts& call) {
  nlohmann::ordered_json json = {{"rank", call.rank}, {"state", call.state}};
  if (call.group.empty()) return json;  // a rank that never called
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

nlohmann::ordered_json finding_json(const sim::Finding& finding) {
  nlohmann::ordered_json calls = nlohmann::ordered_json::array();
  for (const sim::CallFacts& call : finding.calls) calls.push_back(call_json(call));
  return {{"code", finding.code},      {"sentence", finding.sentence},
          {"calls", std::move(calls)}, {"more_calls", finding.more_calls},
          {"rule", finding.rule},      {"hint", finding.hint}};
}

nlohmann::ordered_json ledger_json(const sim::LedgerRow& row) {
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

std::string one_line(const nlohmann::ordered_json& document) {
  return document.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace verify
