#include "verify/explain/explained_resume.h"

#include <algorithm>
#include <cstring>
#include <fmt/format.h>
#include <map>
#include <optional>
#include <vector>

#include "verify/explain/explained_tensors.h"
#include "verify/explain/recognisers.h"
#include "verify/output/phrases.h"
#include "verify/properties/assembled.h"
#include "verify/properties/bench.h"

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
    const bool are_all = std::ranges::all_of(tensors.wrong, [&](const WrongTensor& tensor) {
      const auto other = wholes.find(tensor.output.name);
      return other != wholes.end() && static_cast<std::size_t>(other->second.size()) == tensor.got.size() &&
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

std::string text_of_steps(std::int64_t steps) {
  return steps == 0 ? "before any other step" : "one step later, and not before it";
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
  // In one element a number of the layout is found by chance, and no other setting is tried that would tell.
  for (const WrongTensor& tensor : tensors.wrong)
    if (tensor.judged().size() == 1) run.ruled_out.merge(names_of_factor(tensor));
  ExperimentBudget none{0};
  std::string text = common_time(run, tensors);
  if (text.empty()) text = explain_wrong(tensors, none, false).text;
  return fmt::format("saved after step {}, loaded on {}, {}: {}", stop - 1, layout_text(the_case, layout),
                     text_of_steps(steps), text);
}

// ---- in floats

using FloatWholes = std::map<std::string, std::vector<double>>;

/// Returns what a training has at the end of a stretch; nothing if it fails.
FloatWholes floats_after(Bench& bench, const Case& the_case, const CaseSetting& stretch) {
  FloatWholes wholes;
  const auto report = saved_run(bench, the_case, stretch);
  if (!report) return wholes;
  for (const CaseOutput& output : the_case.outputs(stretch)) {
    if (!output.is_of_the_way)
      wholes[output.name] = assembled<double>(*report, output, stretch.group_size).values;
  }
  return wholes;
}

/// Returns the tensors of both that have other bits.
std::vector<std::string> with_other_bits(const FloatWholes& wholes, const FloatWholes& others) {
  std::vector<std::string> names;
  for (const auto& [name, values] : wholes) {
    const auto other = others.find(name);
    if (other == others.end()) continue;
    const bool is_same =
        values.size() == other->second.size() &&
        std::memcmp(values.data(), other->second.data(), values.size() * sizeof(double)) == 0;
    if (!is_same) names.push_back(name);
  }
  return names;
}

/// Explains what a layout has so many steps after it has loaded what `first` had saved, and that a training
/// on the layout of `first` that was not stopped has not.
std::string explain_floats_of(Bench& bench, const Case& the_case, const CaseSetting& first,
                              const CaseSetting& layout, std::int64_t steps) {
  const std::int64_t stop = first.stretch->last;
  const FloatWholes got = floats_after(bench, the_case, with_stretch(layout, stop, stop + steps));
  const FloatWholes kept = floats_after(bench, the_case, with_stretch(first, 0, stop + steps));
  const std::vector<std::string> names = with_other_bits(got, kept);
  if (names.empty()) return "";
  const auto are_of = [&](std::int64_t last) {
    const FloatWholes then = floats_after(bench, the_case, with_stretch(layout, 0, last));
    const std::vector<std::string> others = with_other_bits(got, then);
    return std::ranges::all_of(names, [&](const std::string& name) {
      return then.contains(name) && std::ranges::find(others, name) == others.end();
    });
  };
  const bool is_first = steps == 0 && are_of(0);
  const bool is_before = steps == 0 && !is_first && stop > 1 && are_of(stop - 1);
  const std::string which = names.size() == 1 ? names.front()
                                              : fmt::format("{} and {}", names.front(),
                                                            counted(std::ssize(names) - 1, "more tensor"));
  return fmt::format(
      "saved after step {}, loaded on {}, {}: in {}, and not in the field, {} {} not what a training has "
      "that was not stopped{}",
      stop - 1, layout_text(the_case, layout), text_of_steps(steps), name_of(layout.dtype), which,
      names.size() == 1 ? "is" : "are",
      is_first    ? ", but as at the beginning"
      : is_before ? ", but as one step before the save"
                  : "");
}

}  // namespace

std::string explain_resume_in_floats(Bench& bench, const Case& the_case, const CaseSetting& setting) {
  const std::vector<CaseSetting> stretches = the_case.stretches(setting);
  const CaseSetting& first = stretches.front();
  if (!saved_run(bench, the_case, first)) return "";  // saves
  std::string text = explain_floats_of(bench, the_case, first, first, 0);
  if (text.empty()) text = explain_floats_of(bench, the_case, first, stretches[1], 0);
  // Another layout may add in another order in its next step.
  return text.empty() ? explain_floats_of(bench, the_case, first, first, 1) : text;
}

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
