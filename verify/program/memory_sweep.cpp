#include <algorithm>
#include <fmt/format.h>
#include <numeric>
#include <optional>
#include <utility>

#include "sim/base/error.h"
#include "sim/base/refusals.h"
#include "verify/megatron_rules/megatron_validation.h"
#include "verify/memory/assumed_sizes.h"
#include "verify/output/json.h"
#include "verify/output/output_file.h"
#include "verify/output/phrases.h"
#include "verify/output/text_table.h"
#include "verify/program/memory_answer.h"
#include "verify/program/report_files.h"
#include "verify/program/run_from.h"
#include "verify/report/sweep_html.h"
#include "verify/requests/command_requests.h"
#include "verify/sweep/sweep.h"
#include "verify/vocabulary/option_vocabulary.h"

namespace verify {

namespace {

constexpr std::int64_t kRowsShown = 20;

std::size_t rows_shown(const SweepReport& report, std::int64_t most) {
  return std::min(report.layouts.size(), static_cast<std::size_t>(most));
}

/// Returns the places of the first layouts, and of the scenario's own one.
std::vector<std::size_t> shown_places(const SweepReport& report, std::size_t rows) {
  std::vector<std::size_t> places(rows);
  std::iota(places.begin(), places.end(), std::size_t{0});
  if (const auto own = report.place_of_own(); own.value_or(0) >= rows) places.push_back(*own);
  return places;
}

Json layout_json(const SweptLayout& layout, std::size_t place) {
  const SweepPoint& point = layout.point;
  return {{"place", place + 1},
          {"tensor_model_parallel_size", point.tp},
          {"pipeline_model_parallel_size", point.pp},
          {"chunks", point.chunks},
          {"context_parallel_size", point.cp},
          {"expert_model_parallel_size", point.ep},
          {"data_parallel_size", layout.dp},
          {"micro_batch_size", point.micro_batch_size},
          {"num_microbatches", layout.microbatches},
          {"recompute_granularity", point.recompute == 0 ? Json() : Json(kRecomputations[point.recompute])},
          {"is_own", layout.is_own},
          {"static_bytes", layout.static_bytes},
          {"peak_bytes", layout.peak_bytes},
          {"stage", layout.stage},
          {"fits", layout.fits},
          {"fits_only_just", layout.fits_only_just},
          {"doubt", layout.doubt},
          {"bytes_inside_nodes", layout.bytes_inside},
          {"bytes_across_nodes", layout.bytes_across},
          {"unknown", layout.unknown},
          {"bubble", layout.bubble},
          {"estimated_seconds", layout.seconds}};
}

Json sweep_json(const SweepReport& report, std::size_t rows) {
  const auto refusal_json = [](const SweepRefusal& rule) {
    return Json{{"code", rule.code},
                {"option", rule.option},
                {"rule", rule.rule},
                {"example", rule.example},
                {"layouts", rule.layouts}};
  };
  return {
      {"world_size", report.world_size},
      {"global_batch_size", report.global_batch_size},
      {"machine", report.machine ? Json(report.machine->name) : Json()},
      {"tried", report.tried},
      {"accepted", report.layouts.size()},
      {"fitting", report.gpu_memory ? Json(report.fitting()) : Json()},
      {"layouts", json_list(shown_places(report, rows),
                            [&](std::size_t place) { return layout_json(report.layouts[place], place); })},
      {"refused", json_list(report.refusals, refusal_json)}};
}

std::vector<std::string> cells_of(std::size_t place, const SweepReport& report) {
  const SweptLayout& layout = report.layouts[place];
  const SweepPoint& point = layout.point;
  std::vector<std::string> cells = {layout.is_own ? "own" : "", fmt::format("{}", place + 1)};
  for (const std::int64_t size : {point.tp, point.pp, point.chunks, point.cp, point.ep,
                                  std::int64_t{layout.dp}, point.micro_batch_size})
    cells.push_back(fmt::format("{}", size));
  cells.insert(cells.end(),
               {kRecomputations[point.recompute], byte_text(layout.static_bytes),
                layout.peak_bytes ? byte_text(*layout.peak_bytes) : "-", fmt::format("{}", layout.stage)});
  if (report.gpu_memory) cells.emplace_back(fit_word(layout));
  cells.push_back(layout.bytes_across ? byte_text(*layout.bytes_across) : "-");
  cells.push_back(fmt::format("{:.1f} %", 100 * layout.bubble));
  if (report.machine) cells.push_back(layout.seconds ? fmt::format("{:.3g} s", *layout.seconds) : "-");
  return cells;
}

std::string layouts_table(const SweepReport& report, std::size_t rows) {
  std::vector<std::string> titles = {
      "",          ">place",         ">tp",      ">pp",   ">chunks", ">cp", ">ep", ">dp", ">micro batch",
      "recompute", ">between steps", ">largest", ">stage"};
  if (report.gpu_memory) titles.emplace_back("fits");
  titles.insert(titles.end(), {">across nodes", ">bubble"});
  if (report.machine) titles.emplace_back(">estimate");
  TextTable table(titles);
  for (const std::size_t place : shown_places(report, rows)) table.add(cells_of(place, report));
  return table.text();
}

/// Why some layouts have no bytes and no time: the first reason, and how many layouts there are.
std::string unknown_text(const SweepReport& report) {
  const auto is_unknown = [](const SweptLayout& layout) { return !layout.unknown.empty(); };
  const auto first = std::ranges::find_if(report.layouts, is_unknown);
  if (first == report.layouts.end()) return "";
  return fmt::format("The traffic of {} is not known; for example, {}.\n",
                     counted(std::ranges::count_if(report.layouts, is_unknown), "layout"), first->unknown);
}

std::string refusals_text(const SweepReport& report) {
  if (report.refusals.empty()) return "";
  TextTable table({">refused", "rule", "for example"});
  for (const SweepRefusal& rule : report.refusals)
    table.row(rule.layouts, fmt::format("{} {}", rule.code, rule.option), rule.example);
  return "\nLayouts that are refused; one may break several rules:\n" + table.text();
}

std::string sweep_text(const SweepReport& report, std::size_t rows) {
  std::string text = sweep_title(report) + "\n" + sweep_order(report) + "\n\n" + layouts_table(report, rows);
  if (rows < report.layouts.size())
    text += fmt::format("and {}: --sweep-rows N shows more\n",
                        counted(std::ssize(report.layouts) - static_cast<std::int64_t>(rows), "layout"));
  return text + unknown_text(report) + refusals_text(report);
}

}  // namespace

void require_no_sweep(const Settings& settings) {
  for (const char* option : {"sweep-values", "sweep-rows", "report"})
    if (settings.has(option)) refuse_without_effect(option, "memory' without '--sweep");
}

int run_memory_sweep(const Call& call, const Scenario& scenario, const AssumedSizes& assumed) {
  const Settings& settings = scenario.settings;
  settings.check();
  if (settings.has("out-of-memory")) refuse_without_effect("out-of-memory", "memory --sweep");
  std::optional<SweepSpace> space;
  std::optional<Machine> machine;
  std::optional<OutputFile> page;
  sim::Refusals refusals;
  refusals.keep([&] { require_answers(call.line); });
  refusals.keep([&] { require_modelled(scenario.run, Unproved::layers); });
  refusals.keep([&] { space = sweep_space(settings); });
  refusals.keep([&] { machine = requested_machine(settings); });
  refusals.keep([&] { page = output_file(call.line, "report"); });
  refusals.throw_if_any();
  const SweepReport report = sweep(scenario, *space, machine);
  if (page) page->write(sweep_html(report));
  const std::optional<std::int64_t> asked = settings.number("sweep-rows");
  if (asks_for_json(call.line)) {
    Json document = sweep_json(report, rows_shown(report, asked.value_or(std::ssize(report.layouts))));
    document["assumed"] = assumed_json(assumed.sizes);
    write_json(call, std::move(document));
  } else {
    call.output.out << sweep_text(report, rows_shown(report, asked.value_or(kRowsShown)))
                    << assumed_text(assumed.sizes);
  }
  if (!report.gpu_memory || report.fitting() > 0) return kVerified;
  return report.is_known_not_to_fit() ? kFalsified : kInPart;
}

}  // namespace verify
