#include "verify/run/live_calls.h"

#include <algorithm>
#include <bit>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <functional>
#include <numeric>
#include <utility>

#include "sim/base/error.h"
#include "sim/base/printable_text.h"
#include "verify/checks/group_comparison.h"
#include "verify/full_size/full_size_training.h"
#include "verify/full_size/step_work.h"
#include "verify/megatron_rules/run_of_file.h"
#include "verify/output/phrases.h"
#include "verify/requests/scenario.h"
#include "verify/requests/scenario_request.h"
#include "verify/run_arguments/run_document.h"

namespace verify {

namespace {

constexpr std::size_t kMostFunctions = 16;  // of a row, because all subsets are tried
constexpr std::int64_t kMostSteps = 1'000'000;

/// Returns the steps that the program has trained: from that of the checkpoint that it has loaded to the one
/// in which Megatron says that it is.
std::int64_t steps_of(const RunValues& values) {
  const auto number = [&](const char* name, std::int64_t otherwise) {
    return std::clamp<std::int64_t>(values.number(name).value_or(otherwise), -1, kMostSteps);
  };
  return number("curr-iteration", number("train-iters", 0) - 1) + 1 - number("iteration", 0);
}

bool evaluates(const RunValues& values) {
  return values.number("eval-iters").value_or(0) != 0 && (values.has("do-valid") || values.has("do-test"));
}

/// Arguments that change what calls carry, and that the closed form does not have.
constexpr const char* kNotInTheForm[] = {"ddp-num-buckets",
                                         "ddp-pad-buckets-for-high-nccl-busbw",
                                         "ddp-reduce-scatter-with-fp32-accumulation",
                                         "fp32-residual-connection",
                                         "iterations-to-skip",
                                         "moe-expert-capacity-factor",
                                         "rampup-batch-size",
                                         "save-dgrads-interval",
                                         "save-wgrads-interval",
                                         "use-megatron-fsdp",
                                         "use-torch-fsdp2"};

/// Returns what the closed form leaves out; "" if that is nothing.
std::string left_out(const RunValues& values, const ScenarioRequest& request) {
  for (const char* name : kNotInTheForm)
    if (values.has(name)) return fmt::format("--{}", name);
  const std::vector<std::string> names = left_out_of_step(request);
  return names.empty() ? "" : names.front();
}

/// Returns why the calls of a training are not known; "" if they are.
std::string why_unknown(const RunOfFile& run, const ScenarioRequest& request) {
  if (!request.model.has_shape || !request.placement || !request.batch.global_batch_size)
    return "the arguments do not give the sizes of a model";
  if (steps_of(run.values) <= 0) return "the program does not report its number of steps";
  if (evaluates(run.values))
    return "the program evaluates, too (--eval-iters); only the calls of training are known";
  const std::string left = left_out(run.values, request);
  return left.empty() ? why_no_step_work(request) : "the closed form does not have " + left;
}

/// Whether the calls at a site of the closed form are not judged: how a batch reaches the ranks and which
/// losses are shown is the program's choice, and Megatron counts the tokens of experts in floats.
bool is_passed_over(const TotalKey& key) {
  return key.site.starts_with("get_batch.") || key.site == "training_log.loss" ||
         key.site == "expert_bias.tokens" || key.kind == "etp";  // how rows are divided is a router's choice
}

bool is_whole_number(sim::DType dtype) {
  return dtype == sim::DType::i64 || dtype == sim::DType::i32 || dtype == sim::DType::i8 ||
         dtype == sim::DType::u8;
}

/// Whether calls of this operation are of this row. Which whole numbers count tokens is the program's choice,
/// and Megatron sends one of two ways between two stages over the group of the world.
bool is_of(const CallsRow& row, const sim::LedgerRow& made) {
  const bool has_its_group = kind_of_description(made.kind) == row.kind ||
                             (sim::is_point_to_point(row.operation) && made.kind == "world");
  const bool has_its_dtype =
      row.dtype == made.dtype || (is_whole_number(row.dtype) && is_whole_number(made.dtype));
  return row.operation == made.operation && has_its_dtype && has_its_group;
}

std::int64_t elements_of(const std::vector<sim::LedgerRow>& rows) {
  return std::transform_reduce(rows.begin(), rows.end(), std::int64_t{0}, std::plus<>(),
                               [](const sim::LedgerRow& row) { return row.elements; });
}

/// Returns the functions whose elements add up to those that are expected: the fewest functions, and of these
/// the first ones; nothing if no subset does.
std::optional<std::vector<sim::LedgerRow>> adding_up_to(std::int64_t expected,
                                                        const std::vector<sim::LedgerRow>& rows) {
  if (rows.size() > kMostFunctions) return std::nullopt;
  std::optional<std::size_t> fewest;
  for (std::size_t set = 0; set < std::size_t{1} << rows.size(); ++set) {
    std::int64_t sum = 0;
    for (std::size_t i = 0; i < rows.size(); ++i)
      if ((set >> i & 1) != 0) sum += rows[i].elements;
    if (sum == expected && (!fewest || std::popcount(set) < std::popcount(*fewest))) fewest = set;
  }
  if (!fewest) return std::nullopt;
  std::vector<sim::LedgerRow> chosen;
  for (std::size_t i = 0; i < rows.size(); ++i)
    if ((*fewest >> i & 1) != 0) chosen.push_back(rows[i]);
  return chosen;
}

void judge(CallsRow& row, const std::vector<sim::LedgerRow>& ledger) {
  for (const sim::LedgerRow& made : ledger)
    if (is_of(row, made)) row.made.push_back(made);
  if (auto chosen = adding_up_to(row.expected, row.made)) {
    row.made = std::move(*chosen);
    row.is_equal = true;
  }
}

/// Returns a row for each operation that the model, its gradients and parameters need.
std::vector<CallsRow> expected_rows(const StepTotals& totals) {
  std::vector<CallsRow> rows;
  for (const auto& [key, total] : totals) {
    if (is_passed_over(key) || total.elements == 0) continue;
    const auto same = std::ranges::find_if(rows, [&](const CallsRow& row) {
      return row.kind == key.kind && row.operation == key.operation && row.dtype == key.dtype;
    });
    if (same == rows.end())
      rows.push_back({key.kind, key.operation, key.dtype, total.elements, {}, false});
    else
      same->expected += total.elements;
  }
  return rows;
}

JudgedCalls judged(const RunOfFile& run, const sim::RunReport& report) {
  const ScenarioRequest request = scenario_request({.settings = run.settings, .run = run});
  JudgedCalls judged{.layout = request.layout,
                     .unknown = report.ok() ? why_unknown(run, request) : "the run is broken"};
  if (!judged.unknown.empty()) return judged;
  judged.steps = steps_of(run.values);
  judged.beside = std::ssize(report.ledger);
  judged.elements_beside = elements_of(report.ledger);
  judged.rows = expected_rows(expected_totals(request, judged.steps));
  for (CallsRow& row : judged.rows) {
    judge(row, report.ledger);
    judged.beside -= std::ssize(row.made);
    judged.elements_beside -= elements_of(row.made);
  }
  return judged;
}

/// Returns "found 1,152 (_reduce) and 1,152 (forward), 2 times as many".
std::string made_text(const CallsRow& row) {
  std::vector<std::string> parts;
  for (const sim::LedgerRow& made : row.made)
    parts.push_back(fmt::format("{} ({})", grouped_digits(made.elements), sim::printable_text(made.site)));
  if (parts.empty()) return "found none";
  const std::int64_t all = elements_of(row.made);
  return fmt::format("found {}{}", fmt::join(parts, " and "),
                     all % row.expected == 0 ? fmt::format(", {} times as many", all / row.expected) : "");
}

/// Returns "all_reduce over mp, all_reduce over tp".
std::string names_of(const std::vector<CallsRow>& rows) {
  std::vector<std::string> names;
  for (const CallsRow& row : rows)
    names.push_back(fmt::format("{} over {}", sim::name_of(row.operation), row.kind));
  return fmt::format("{}", fmt::join(names, ", "));
}

}  // namespace

bool JudgedCalls::is_equal() const {
  return unknown.empty() && std::ranges::all_of(rows, &CallsRow::is_equal);
}

std::optional<JudgedCalls> judged_calls(const std::string& told, const sim::RunReport& report) {
  if (told.empty()) return std::nullopt;
  try {
    return judged(run_of(read_run_document(told)), report);
  } catch (const sim::Error& error) {
    return JudgedCalls{.unknown = error.what()};
  }
}

std::optional<std::int64_t> told_number(const std::string& told, const char* name) {
  if (told.empty()) return std::nullopt;
  try {
    return run_of(read_run_document(told)).values.number(name);
  } catch (const sim::Error&) {
    return std::nullopt;
  }
}

std::string judged_calls_text(const JudgedCalls& judged) {
  if (!judged.unknown.empty()) return "calls   not compared with a closed form: " + judged.unknown + "\n";
  const std::int64_t equal = std::ranges::count_if(judged.rows, &CallsRow::is_equal);
  std::string text = fmt::format(
      "calls   {} of {} {} as many elements as {} with these arguments need: {}\n        {} more, with {} "
      "elements, {} not judged\n",
      equal, counted(std::ssize(judged.rows), "operation"), judged.rows.size() == 1 ? "carries" : "carry",
      counted(judged.steps, "step"), names_of(judged.rows), counted(judged.beside, "function"),
      grouped_digits(judged.elements_beside), judged.beside == 1 ? "is" : "are");
  for (const CallsRow& row : judged.rows)
    if (!row.is_equal)
      text += fmt::format("warning {} of {} over {} needs {} elements; {}\n", sim::name_of(row.operation),
                          sim::name_of(row.dtype), row.kind, grouped_digits(row.expected), made_text(row));
  return text;
}

Json judged_calls_json(const JudgedCalls& judged) {
  Json document = {{"steps", judged.steps},
                   {"unknown", judged.unknown},
                   {"equal", judged.is_equal()},
                   {"beside", judged.beside},
                   {"elements_beside", judged.elements_beside},
                   {"rows", Json::array()}};
  for (const CallsRow& row : judged.rows) {
    Json functions = Json::array();
    for (const sim::LedgerRow& made : row.made) functions.push_back(made.site);
    document["rows"].push_back({{"kind", row.kind},
                                {"operation", sim::name_of(row.operation)},
                                {"dtype", sim::name_of(row.dtype)},
                                {"expected_elements", row.expected},
                                {"equal", row.is_equal},
                                {"functions", std::move(functions)}});
  }
  return document;
}

}  // namespace verify
