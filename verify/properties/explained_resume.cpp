#include "verify/properties/explained_resume.h"

#include <algorithm>
#include <fmt/format.h>
#include <optional>

#include "verify/properties/assembled.h"
#include "verify/properties/explained_tensors.h"
#include "verify/properties/published_tensors.h"

namespace verify {

namespace {

using sim::Field;

CaseSetting with_stretch(CaseSetting setting, std::int64_t first, std::int64_t last) {
  setting.stretch->first = first;
  setting.stretch->last = last;
  setting.stretch->saves = false;
  setting.dimensions["steps"] = std::max(setting["steps"], last);
  return setting;
}

std::optional<sim::RunReport> saved_run(Bench& bench, const Case& the_case, const CaseSetting& setting) {
  sim::RunReport report = bench.run(the_case, setting, bench.world_of(the_case, setting));
  if (!report.ok() || !check_outputs(report, the_case.outputs(setting), setting.dtype).empty())
    return std::nullopt;
  return report;
}

/// Returns what a training that was never stopped has after so many steps; nothing if it fails.
Wholes<Field> state_after(Bench& bench, const Case& the_case, const CaseSetting& layout, std::int64_t steps) {
  const CaseSetting setting = with_stretch(layout, 0, steps);
  const auto report = saved_run(bench, the_case, setting);
  Wholes<Field> wholes;
  if (!report) return wholes;
  for (const CaseOutput& output : the_case.outputs(setting)) {
    const Assembled<Field> whole = assembled<Field>(*report, output, setting.group_size);
    wholes[output.name] = Eigen::Map<const FieldWhole>(whole.values.data(), whole.rows, whole.columns);
  }
  return wholes;
}

/// If several tensors differ and all of them have their values of one other time, returns that time.
std::string common_time(const ComparedRun& run, const WrongTensors& tensors) {
  constexpr std::size_t kSeveral = 3;
  if (tensors.wrong.size() < kSeveral) return "";
  for (const auto& [time, wholes] : run.others) {
    const bool are_all =
        std::all_of(tensors.wrong.begin(), tensors.wrong.end(), [&](const WrongTensor& tensor) {
          const auto other = wholes.find(tensor.output.name);
          return other != wholes.end() &&
                 static_cast<std::size_t>(other->second.size()) == tensor.got.size() &&
                 std::equal(tensor.got.begin(), tensor.got.end(), other->second.data());
        });
    if (are_all)
      return fmt::format("{} and the {} other tensors that differ are each {}",
                         tensors.wrong.front().output.name, tensors.wrong.size() - 1, time);
  }
  return "";
}

/// Returns the ranks of a setting, and its parallel axes of several ranks: "world 4, tp 2, pp 2".
std::string layout_text(const Case& the_case, const CaseSetting& setting) {
  const sim::ParallelSizes sizes = the_case.sizes(setting);
  std::string text = fmt::format("{} {}", name_of(setting.ranks), setting.group_size);
  const NamedNumber axes[] = {{"tp", sizes.tensor_model_parallel_size},
                              {"pp", sizes.pipeline_model_parallel_size},
                              {"cp", sizes.context_parallel_size},
                              {"ep", sizes.expert_model_parallel_size}};
  for (const NamedNumber& axis : axes)
    if (axis.value > 1) text += fmt::format(", {} {}", axis.name, axis.value);
  return text;
}

/// Explains a layout that loads after step `stop` and then takes so many steps.
std::string explain_layout(Bench& bench, const Case& the_case, const CaseSetting& layout, std::int64_t stop,
                           std::int64_t steps) {
  const CaseSetting setting = with_stretch(layout, stop, stop + steps);
  const auto report = saved_run(bench, the_case, setting);
  if (!report) return "";
  ComparedRun run{the_case, setting, *report, reference::Number<Field>(bench.tower(the_case, setting))};
  run.serial = state_after(bench, the_case, layout, stop + steps);
  if (run.serial.empty()) return "";
  if (steps == 0) {
    run.others["its initial value"] = state_after(bench, the_case, layout, 0);
    if (stop > 1)
      run.others["its value one step before the save"] = state_after(bench, the_case, layout, stop - 1);
  }
  const WrongTensors tensors = wrong_tensors(run);
  if (tensors.wrong.empty()) return "";
  ExperimentBudget none{0};
  std::string text = common_time(run, tensors);
  if (text.empty()) text = explain_wrong(tensors, none, false).text;
  const std::string when = steps == 0 ? "before any other step" : "one step later, and not before it";
  return fmt::format("saved after step {}, loaded on {}, {}: {}", stop - 1, layout_text(the_case, layout),
                     when, text);
}

}  // namespace

std::string explain_resume(Bench& bench, const Case& the_case, const CaseSetting& setting) {
  const std::vector<CaseSetting> stretches = the_case.stretches(setting);
  const CaseSetting& first = stretches.front();
  const std::int64_t stop = first.stretch->last;
  if (!saved_run(bench, the_case, first)) return "";  // saves
  for (const std::int64_t steps : {0, 1}) {
    for (const CaseSetting* layout : {&first, &stretches[1]}) {
      if (std::string text = explain_layout(bench, the_case, *layout, stop, steps); !text.empty())
        return text;
    }
  }
  return "";
}

}  // namespace verify
