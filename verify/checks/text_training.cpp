#include "verify/checks/text_training.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <memory>
#include <utility>

#include "sim/model/text_corpus.h"
#include "sim/tensor/counting_device.h"
#include "verify/cases/case_inputs.h"
#include "verify/cases/case_list.h"
#include "verify/cases/scalars.h"
#include "verify/checks/trained_experts.h"
#include "verify/explain/explanation.h"
#include "verify/faults/faulty_calls.h"
#include "verify/faults/faulty_device.h"
#include "verify/output/phrases.h"
#include "verify/properties/assembled.h"
#include "verify/properties/bench.h"
#include "verify/properties/properties.h"

namespace verify {

namespace {

/// Returns one loss per step; `value_of` reads it from the tensor of this name.
template <typename Value>
std::vector<double> losses(const CaseSetting& setting, const Value& value_of) {
  std::vector<double> all;
  for (std::int64_t step = 0; step < setting["steps"]; ++step)
    all.push_back(value_of(fmt::format("loss of step {}", step)));
  return all;
}

const CaseOutput& output_named(const std::vector<CaseOutput>& outputs, const std::string& name) {
  return *std::ranges::find(outputs, name, &CaseOutput::name);
}

/// Says what of a training in f32 could not be judged.
std::string what_is_open(const Judgement& judgement) {
  std::string text = judgement.has_unbounded ? "; some elements had no bound" : "";
  if (judgement.has_open_choice)
    text += "; where rounding may exchange two experts of a token, only the field judges";
  return text;
}

/// Says what the trained model has less of than the scenario's.
std::string what_is_less(const TrainedModel& model) {
  std::string text;
  if (!model.reduced.empty()) text += fmt::format("; reduced: {}", fmt::join(model.reduced, ", "));
  if (!model.left_out.empty()) text += fmt::format("; not trained: {}", fmt::join(model.left_out, ", "));
  return text;
}

/// Trains in the field and in f32, on virtual ranks and on one device.
ProvedTraining trained(const Case& the_case, CaseSetting setting, Bench& bench) {
  ProvedTraining training;
  Judgement judgement = property_named("serial").judge(bench, the_case, setting);
  training.is_equal_in_field = judgement.holds;
  if (judgement.holds) judgement = property_named("calls").judge(bench, the_case, setting);
  if (!judgement.holds)
    judgement.detail += ". " + explanation(bench, the_case, property_named("serial"), setting);

  setting.dtype = sim::DType::f32;
  const auto run = bench.run(the_case, setting);
  const reference::Rounding rounding = reference::rounding_of_f32(1);
  const Wholes<reference::Bounded> wholes = the_case.serial(
      Inputs<reference::Bounded>(setting, reference::Number<reference::Bounded>(rounding)), setting);
  if (judgement.holds) judgement = judge_floats(the_case, setting, *run, wholes);
  if (run->ok()) {
    const std::vector<CaseOutput> outputs = the_case.outputs(setting);
    training.losses = losses(setting, [&](const std::string& name) {
      return assembled<double>(*run, output_named(outputs, name), setting.group_size).values.front();
    });
  }
  training.reference =
      losses(setting, [&](const std::string& name) { return wholes.at(name)(0, 0).value(); });
  training.bounds = losses(setting, [&](const std::string& name) { return wholes.at(name)(0, 0).error(); });
  training.judgement = std::move(judgement);
  return training;
}

/// Everything that a training depends on.
std::string key_of(const Case& the_case, const TrainedModel& model) {
  return fmt::format("{}, {}, text {:016x}{}", the_case.name(), text_of(model.setting), model.text_hash,
                     model.setting.text->masks_documents() ? ", documents masked" : "");
}

}  // namespace

TextTraining train_on_text(const TrainedModel& model, Bench& bench, ProvedSettings& proved) {
  const Case& the_case = *find_case(case_of_training(model.setting));
  const auto train = [&] { return trained(the_case, model.setting, bench); };
  ProvedTraining trained =
      bench.faults().empty() ? proved.trainings.get(key_of(the_case, model), train) : train();
  const Judgement& judgement = trained.judgement;
  TextTraining training{
      .check = {"training", judgement.holds, ""},
      .curve = {
          .world = model.world, .model = model.model, .reduced = model.reduced, .left_out = model.left_out}};
  training.curve.is_equal_in_field = trained.is_equal_in_field;
  training.curve.losses = std::move(trained.losses);
  training.curve.reference = std::move(trained.reference);
  training.curve.bounds = std::move(trained.bounds);
  training.check.detail =
      judgement.holds
          ? fmt::format("{}{}{} at {}: loss {:.4f} to {:.4f}, as on one device (worst slack {:.2g} in f32{})",
                        counted(model.setting["steps"], "step"), model.bound,
                        model.is_whole ? " of the whole model" : "", model.world,
                        training.curve.losses.front(), training.curve.losses.back(), judgement.slack,
                        what_is_open(judgement)) +
                what_is_less(model)
          : fmt::format("{}: {}", model.world, judgement.detail);
  return training;
}

TracedRun trace_training(const TrainedModel& model, const sim::WorldSpec& world, std::vector<Fault> faults) {
  for (Fault& fault : faults) fault.met = std::make_shared<std::atomic<std::int64_t>>(0);
  const Case& the_case = *find_case(case_of_training(model.setting));
  CaseSetting setting = model.setting;
  setting.dtype = sim::DType::f32;
  const std::int64_t all = setting["steps"];
  const std::int64_t steps = setting.dimensions["steps"] = std::min(all, kMostTracedSteps);
  sim::WorldSpec spec = world;
  spec.layout = sim::make_layout(the_case.sizes(setting), sim::RuleBook::megatron);
  spec.seed = setting.seed;
  spec.stack_bytes = sim::kDefaultStackBytes;
  FaultyDevice cpu(faults);
  sim::CountingDevice device(cpu);
  const sim::RankProgram program = [&](sim::Rank& rank) { the_case.run(rank, setting); };
  sim::RunReport run =
      sim::simulate(spec, device, with_faults(program, with_calls_before(faults, spec, cpu, program)));
  return traced_run(fmt::format("training steps 1 to {} of {}, in f32 at {}", steps, all, model.world), spec,
                    std::move(run), device);
}

}  // namespace verify
