#include <cstddef>
#include <cstdint>
#include <fmt/format.h>
#include <utility>

#include "sim/layout/layer_placement.h"
#include "verify/output/json.h"
#include "verify/output/phrases.h"
#include "verify/output/report_json.h"
#include "verify/output/text_table.h"
#include "verify/program/commands.h"
#include "verify/program/run_from.h"
#include "verify/requests/command_requests.h"

namespace verify {

namespace {

Json as_json(const sim::LayerPlacement& placement, const std::string& rules,
             const std::vector<sim::Warning>& warnings) {
  const auto chunk_json = [](const sim::StageLayers& stage) {
    Json chunk = {{"count", stage.count}, {"offset", stage.offset}};
    if (stage.mtp > 0) chunk["mtp"] = stage.mtp;
    return chunk;
  };
  const auto rank_json = [&](const auto& rank) { return json_list(rank, chunk_json); };
  return {{"rules", rules},
          {"mode", placement.mode},
          {"num_layers", placement.num_layers},
          {"encoder_ranks", placement.encoder_ranks},
          {"stages", json_list(placement.stages, rank_json)},
          {"warnings", warnings_json(warnings)}};
}

std::string layers_text(const sim::StageLayers& stage) {
  const std::string predicting = stage.mtp == 0 ? "" : fmt::format("{} of multi-token prediction", stage.mtp);
  if (stage.count == 0) return stage.mtp == 0 ? "none" : predicting;
  const std::string layers = stage.count == 1
                                 ? fmt::format("{}", stage.offset)
                                 : fmt::format("{}..{}", stage.offset, stage.offset + stage.count - 1);
  return layers + (stage.mtp == 0 ? "" : ", and " + predicting);
}

std::string as_text(const sim::LayerPlacement& placement, const std::string& rules) {
  const std::size_t chunks = placement.stages.front().size();
  std::string text = fmt::format(
      "{}{} on {} x {}, mode {}, rules {}\n\n", counted(placement.num_layers, "layer"),
      placement.encoder_ranks > 0 ? " a side" : "", counted(std::ssize(placement.stages), "pipeline rank"),
      counted(static_cast<std::int64_t>(chunks), "chunk"), placement.mode, rules);
  std::vector<std::string> columns = {">pipeline rank", ">layers"};
  if (placement.encoder_ranks > 0) columns.push_back({"side"});
  for (std::size_t chunk = 0; chunk < chunks; ++chunk) {
    columns.push_back({chunks == 1 ? "which" : fmt::format("chunk {}", chunk)});
  }
  TextTable table(std::move(columns));
  for (std::size_t rank = 0; rank < placement.stages.size(); ++rank) {
    int count = 0;
    std::vector<std::string> which;
    for (const sim::StageLayers& stage : placement.stages[rank]) {
      count += stage.count;
      which.push_back(layers_text(stage));
    }
    std::vector<std::string> cells = {fmt::format("{}", rank), fmt::format("{}", count)};
    if (placement.encoder_ranks > 0) {
      cells.emplace_back(static_cast<int>(rank) < placement.encoder_ranks ? "encoder" : "decoder");
    }
    cells.insert(cells.end(), which.begin(), which.end());
    table.add(std::move(cells));
  }
  return text + table.text();
}

}  // namespace

int run_layers(const Call& call) {
  const LayersRequest request = layers_request(call.line);
  if (asks_for_json(call.line)) {
    write_json(call, as_json(request.placement, request.rules, request.warnings));
  } else {
    call.output.out << as_text(request.placement, request.rules) << warnings_text(request.warnings);
  }
  return kVerified;
}

}  // namespace verify
