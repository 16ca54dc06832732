#include "verify/twin_program.h"

#include <algorithm>
#include <cstddef>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <utility>

#include "sim/world/simulate.h"
#include "verify/properties.h"
#include "verify/rank_comparison.h"

namespace verify {

namespace {

/// Of the simulated world, with what these ranks published in the place of what their twins did.
sim::RunReport with_ranks(sim::RunReport simulated, const std::vector<sim::RankReport>& ranks, int first) {
  for (const sim::RankReport& rank : ranks)
    simulated.ranks[static_cast<std::size_t>(rank.rank - first)].published = rank.published;
  return simulated;
}

void count(const sim::RunReport& run, TwinRow& row) {
  ++row.runs;
  for (const sim::RankReport& rank : run.ranks) {
    row.tensors += std::ssize(rank.published);
    row.calls += std::ssize(rank.calls);
    for (const sim::Published& tensor : rank.published) row.bytes += std::ssize(tensor.values);
  }
}

/// The first difference; "" for none.
std::string difference_of(const Backend& backend, const TwinProgram& twins, const RanksHere& here,
                          sim::RunReport simulated) {
  const bool is_bounded = twins.the_case != nullptr && !backend.same_bits().all();
  const int first = twins.world.layout.first_rank;
  for (const sim::RankReport& rank : here.ranks) {
    const RankComparison comparison =
        compare_ranks(simulated.ranks[static_cast<std::size_t>(rank.rank - first)], rank, backend.name(),
                      is_bounded ? Compared::shapes : Compared::bits);
    if (!comparison.is_equal()) return comparison.difference;
  }
  if (!is_bounded) return "";
  const Judgement judgement =
      judge_floats(*twins.the_case, twins.setting, with_ranks(std::move(simulated), here.ranks, first),
                   bounded_reference(*twins.the_case, twins.setting));
  return judgement.holds
             ? ""
             : fmt::format("with rank {} of {}: {}", backend.rank(), backend.name(), judgement.detail);
}

void run_one(Backend& backend, const TwinProgram& twins, TwinRow& row) {
  const auto cpu = std::make_shared<sim::CpuDevice>();
  sim::RankProgram program = twins.program;
  if (twins.the_case != nullptr) {
    cpu->set_field_seed(twins.setting.seed, twins.the_case->field_functions());
    program = [&twins](sim::Rank& rank) { twins.the_case->run(rank, twins.setting); };
  }
  const RanksHere here = backend.run(twins.world, *cpu, program);
  sim::WorldSpec world = twins.world;
  if (const auto order = backend.order()) world.reduction_order = {.kind = *order};
  sim::RunReport simulated = sim::simulate(world, *cpu, program);
  std::string difference = simulated.failure();
  if (simulated.ok()) {
    count(simulated, row);
    difference = difference_of(backend, twins, here, std::move(simulated));
  } else {
    difference = "simulated: " + difference;
  }
  row.is_bounded = twins.the_case != nullptr && !backend.same_bits().all();
  if (difference.empty() || !row.is_equal()) return;
  row.difference = twins.words.empty() ? difference : fmt::format("{}: {}", twins.words, difference);
}

nlohmann::ordered_json report_json(const std::vector<TwinRow>& rows, const std::string& note) {
  constexpr std::size_t kMostDifference = 1500;  // a report takes 4,096 bytes
  nlohmann::ordered_json failed = nlohmann::ordered_json::array();
  std::string difference;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (rows[i].is_equal()) continue;
    failed.push_back(i);
    if (difference.empty()) difference = rows[i].difference.substr(0, kMostDifference);
  }
  return {{"failed", std::move(failed)}, {"difference", difference}, {"note", note}};
}

/// What another rank reported; of differences the first rank's stays. Its note.
std::string add_report(std::vector<TwinRow>& rows, const sim::Report& report) {
  const auto document = nlohmann::ordered_json::parse(report.text, nullptr, false);
  if (!document.is_object()) return "";
  std::string difference = document["difference"].get<std::string>();
  for (const auto& index : document["failed"]) {
    TwinRow& row = rows.at(index.get<std::size_t>());
    if (row.is_equal()) row.difference = difference;
    difference = "another difference";  // its report has room for one
  }
  return document["note"].get<std::string>();
}

}  // namespace

TwinProgram twin_of(std::string row, const Case& the_case, const CaseSetting& setting, sim::WorldSpec world) {
  world.seed = setting.seed;
  return {.row = std::move(row),
          .world = std::move(world),
          .program = {},
          .the_case = &the_case,
          .setting = setting};
}

std::vector<TwinRow> run_twins(Backend& backend, const std::vector<TwinProgram>& programs,
                               const std::function<void(std::size_t, const std::string&)>& before_run) {
  std::vector<TwinRow> rows;
  run_or_end_all(backend, [&] {
    for (std::size_t i = 0; i < programs.size(); ++i) {
      if (rows.empty() || rows.back().name != programs[i].row) rows.push_back({.name = programs[i].row});
      before_run(i, programs[i].row);
      run_one(backend, programs[i], rows.back());
    }
  });
  return rows;
}

TwinVerdict concluded(Backend& backend, std::vector<TwinRow> rows, bool is_right, const std::string& note) {
  const bool is_equal =
      is_right && std::all_of(rows.begin(), rows.end(), [](const TwinRow& row) { return row.is_equal(); });
  const std::string text =
      report_json(rows, note).dump(-1, ' ', true, nlohmann::ordered_json::error_handler_t::replace);
  const sim::Conclusion conclusion = backend.finish({is_equal, text});
  TwinVerdict verdict{std::move(rows), conclusion.exit_code, {}};
  for (std::size_t rank = 0; rank < conclusion.reports.size(); ++rank) {
    verdict.notes.push_back(rank == 0 ? note : add_report(verdict.rows, conclusion.reports[rank]));
  }
  return verdict;
}

}  // namespace verify
