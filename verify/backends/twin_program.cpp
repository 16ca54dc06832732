#include "verify/backends/twin_program.h"

#include <algorithm>
#include <cstddef>
#include <fmt/format.h>
#include <utility>

#include "sim/meeting/rendezvous.h"
#include "sim/world/simulate.h"
#include "verify/backends/rank_comparison.h"
#include "verify/cases/case_inputs.h"
#include "verify/output/json.h"
#include "verify/properties/bench.h"
#include "verify/properties/properties.h"

namespace verify {

namespace {

/// Returns the report of the simulated world, in which the tensors that this rank published replace those of
/// its twin. They also replace those of all ranks that hold the same part, because only the first of these is
/// judged. Outputs that are a sum over several ranks are not replaced on other ranks.
sim::RunReport with_rank(const sim::RunReport& simulated, const sim::RankReport& rank,
                         const TwinProgram& twins) {
  sim::RunReport mixed = simulated;
  const int first = twins.world.layout.first_rank;
  const auto own_index = static_cast<std::size_t>(rank.rank - first);
  mixed.ranks[own_index].published = rank.published;
  for (const CaseOutput& output : twins.the_case->outputs(twins.setting)) {
    const int part = output.part(rank.rank, twins.setting.group_size);
    const sim::Published* own = mixed.find(rank.rank, output.name);
    if (part < 0 || own == nullptr || (output.is_sum() && !output.part_of.empty())) continue;
    for (sim::RankReport& other : mixed.ranks) {
      const bool is_twin = output.part_of.empty() && output.is_sum()
                               ? other.rank % twins.setting.group_size == rank.rank % twins.setting.group_size
                               : output.part(other.rank, twins.setting.group_size) == part;
      if (other.rank == rank.rank || !is_twin) continue;
      for (sim::Published& published : other.published) {
        if (published.name == output.name) published = *own;
      }
    }
  }
  return mixed;
}

void count(const sim::RunReport& run, TwinRow& row) {
  ++row.runs;
  for (const sim::RankReport& rank : run.ranks) {
    row.tensors += std::ssize(rank.published);
    row.calls += std::ssize(rank.calls);
    for (const sim::Published& tensor : rank.published) row.bytes += std::ssize(tensor.values);
  }
}

Judgement differs(std::string detail) { return {.holds = false, .detail = std::move(detail)}; }

/// Judges each rank of this process. Returns the first judgement that does not hold.
Judgement judged(const Backend& backend, const TwinProgram& twins, const RanksHere& here,
                 const sim::RunReport& simulated) {
  const bool is_bounded = twins.the_case != nullptr && !backend.same_bits().all();
  const int first = twins.world.layout.first_rank;
  Judgement all;
  std::optional<Wholes<reference::Bounded>> wholes;
  for (const sim::RankReport& rank : here.ranks) {
    const RankComparison comparison =
        compare_ranks(simulated.ranks[static_cast<std::size_t>(rank.rank - first)], rank, backend.name(),
                      is_bounded ? Compared::shapes : Compared::bits);
    if (!comparison.is_equal()) return differs(comparison.difference);
    if (!is_bounded) continue;
    if (!wholes) wholes = bounded_reference(*twins.the_case, twins.setting);
    const Judgement one =
        judge_floats(*twins.the_case, twins.setting, with_rank(simulated, rank, twins), *wholes);
    if (!one.holds) return differs(fmt::format("rank {}: {}", rank.rank, one.detail));
    all.has_unbounded = all.has_unbounded || one.has_unbounded;
  }
  return all;
}

/// Judges the case on virtual ranks. Returns the first judgement that does not hold.
Judgement judged_on_virtual_ranks(Bench& bench, const TwinProgram& twins) {
  Judgement all;
  for (const Property* property : required_properties()) {
    if (!property->judges(*twins.the_case, twins.setting.dtype)) continue;
    const Judgement one = property->judge(bench, *twins.the_case, twins.setting);
    if (!one.holds) return differs(fmt::format("on virtual ranks, {}: {}", property->name, one.detail));
    all.has_unbounded = all.has_unbounded || one.has_unbounded;
  }
  return all;
}

/// Runs the program on the backend and on virtual ranks, and compares them.
Judgement compared(Backend& backend, const TwinProgram& twins, TwinRow& row) {
  const auto cpu = std::make_shared<sim::CpuDevice>();
  sim::RankProgram program = twins.program;
  if (twins.the_case != nullptr) {
    cpu->set_field_seed(twins.setting.seed, twins.the_case->field_functions());
    program = [&twins](sim::Rank& rank) { twins.the_case->run(rank, twins.setting); };
  }
  const RanksHere here = backend.run(twins.world, *cpu, program);
  if (twins.keep) twins.keep(here);
  sim::WorldSpec world = twins.world;
  if (const auto order = backend.order()) world.reduction_order = {.kind = *order};
  const sim::RunReport simulated = sim::simulate(world, *cpu, program);
  if (!here.failure.empty()) return differs(fmt::format("{}: {}", backend.name(), here.failure));
  if (!simulated.ok()) return differs("on virtual ranks: " + simulated.failure());
  count(simulated, row);
  return judged(backend, twins, here, simulated);
}

void run_one(Backend& backend, Bench& bench, const TwinProgram& twins, TwinRow& row) {
  Judgement judgement;
  if (twins.must_hold) judgement = judged_on_virtual_ranks(bench, twins);
  const bool had_unbounded = judgement.has_unbounded;
  if (judgement.holds) judgement = compared(backend, twins, row);
  row.is_bounded = twins.the_case != nullptr && !backend.same_bits().all();
  row.runs_with_unbounded += had_unbounded || judgement.has_unbounded ? 1 : 0;
  if (judgement.holds || !row.is_equal()) return;
  row.difference =
      twins.words.empty() ? judgement.detail : fmt::format("{}: {}", twins.words, judgement.detail);
}

/// Returns the report to rank 0: a few words about each failed row, as many as fit into 4,096 bytes.
Json report_json(const std::vector<TwinRow>& rows, const std::string& note) {
  constexpr std::size_t kWords = 1200;  // bytes of words for all rows
  constexpr std::size_t kMostRows = 12;
  Json failed = Json::array();
  const auto count = std::ranges::count_if(rows, [](const TwinRow& row) { return !row.is_equal(); });
  const std::size_t each =
      kWords / std::min(kMostRows, static_cast<std::size_t>(std::max<std::ptrdiff_t>(count, 1)));
  for (std::size_t i = 0; i < rows.size() && failed.size() < kMostRows; ++i) {
    if (!rows[i].is_equal()) failed.push_back({i, rows[i].difference.substr(0, each)});
  }
  return {{"failed", std::move(failed)}, {"note", note}};
}

/// Adds the report of another rank to the rows and returns its note. A row keeps the difference of the first
/// rank that reported one.
std::string add_report(std::vector<TwinRow>& rows, const sim::Report& report, std::size_t rank) {
  const Json document = parsed_json(report.text).value_or(Json());
  const bool is_whole = document.is_object();
  std::string note;
  if (is_whole) {
    note = document.find("note")->text();
    for (const Json& failed : document.find("failed")->elements()) {
      TwinRow& row = rows.at(static_cast<std::size_t>(failed[0].integer()));
      if (row.is_equal()) row.difference = failed[1].text();
    }
  }
  const bool is_told = std::ranges::any_of(rows, [](const TwinRow& row) { return !row.is_equal(); });
  if (!report.is_equal && !is_told && !is_whole && !rows.empty())
    rows.front().difference = fmt::format("rank {} found differences, but its report cannot be read", rank);
  return note;
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

std::vector<const Property*> required_properties() {
  std::vector<const Property*> properties;
  for (const char* name : {"serial", "agree", "calls", "adjoint"})  // one run shows all four
    properties.push_back(&property_named(name));
  return properties;
}

std::vector<TwinRow> run_twins(Backend& backend, const std::vector<TwinProgram>& programs,
                               const std::function<void(std::size_t, const std::string&)>& before_run) {
  std::vector<TwinRow> rows;
  Bench bench;
  run_or_end_all(backend, [&] {
    for (std::size_t i = 0; i < programs.size(); ++i) {
      if (rows.empty() || rows.back().name != programs[i].row) rows.push_back({.name = programs[i].row});
      before_run(i, programs[i].row);
      run_one(backend, bench, programs[i], rows.back());
    }
  });
  return rows;
}

TwinVerdict concluded(Backend& backend, std::vector<TwinRow> rows, bool is_right, const std::string& note) {
  const bool is_equal =
      is_right && std::ranges::all_of(rows, [](const TwinRow& row) { return row.is_equal(); });
  const std::string text = report_json(rows, note).dump();
  const sim::Conclusion conclusion = backend.finish({is_equal, text});
  TwinVerdict verdict{std::move(rows), conclusion.exit_code, {}};
  for (std::size_t rank = 0; rank < conclusion.reports.size(); ++rank) {
    verdict.notes.push_back(rank == 0 ? note : add_report(verdict.rows, conclusion.reports[rank], rank));
  }
  return verdict;
}

}  // namespace verify
