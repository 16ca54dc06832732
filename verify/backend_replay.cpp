#include "verify/backend_replay.h"

#include <algorithm>
#include <fmt/format.h>
#include <utility>
#include <vector>

#include "sim/base/content_hash.h"
#include "sim/base/error.h"
#include "verify/backend_options.h"
#include "verify/commands.h"
#include "verify/counted.h"
#include "verify/random_calls.h"
#include "verify/requests.h"
#include "verify/trained_model.h"
#include "verify/twin_program.h"
#include "verify/world_options.h"

namespace verify {

namespace {

void check_options(const Settings& settings, const std::string& backend) {
  for (const char* option : {"program", "case", "property", "dtype", "dimensions", "trace", "runs",
                             "max-world", "expect", "expect-refusal", "expect-finding"}) {
    if (settings.has(option)) refuse_without_effect(option, "replay on " + backend);
  }
}

TwinProgram collectives(const Settings& settings, const sim::Layout& layout, const Backend& backend) {
  RandomCalls calls{.seed = static_cast<std::uint64_t>(settings.number("seed").value_or(0)),
                    .steps = kOperations * (static_cast<int>(layout.kinds.size()) + 1),
                    .any_order = !backend.same_bits().sums};
  std::erase_if(calls.dtypes, [&](sim::DType dtype) { return !backend.has(dtype); });
  return {.row = fmt::format("{} collectives", backend.name()),
          .world = requested_world(settings, layout),
          .program = [calls](sim::Rank& rank) { random_calls(rank, calls); }};
}

std::vector<sim::DType> training_dtypes(const Backend& backend) {
  if (!backend.same_bits().all()) return {sim::DType::f32};
  return {sim::DType::f32, backend.has(sim::DType::field) ? sim::DType::field : sim::DType::bf16};
}

std::vector<TwinProgram> programs(const Settings& settings, const sim::Layout& layout,
                                  const std::optional<TrainedModel>& model, const Backend& backend) {
  std::vector<TwinProgram> all = {collectives(settings, layout, backend)};
  // A folded training is of another world.
  if (!model || (backend.processes() > 1 && model->setting.tp != layout.world_size)) return all;
  const Case& the_case = *find_case("gpt_training");
  for (const sim::DType dtype : training_dtypes(backend)) {
    CaseSetting setting = model->setting;
    setting.dtype = dtype;
    all.push_back(twin_of(
        fmt::format("{} training {}", backend.name(), sim::name_of(dtype)), the_case, setting,
        requested_world(settings, sim::make_layout(the_case.sizes(setting), sim::RuleBook::megatron))));
  }
  return all;
}

/// Of all that a result depends on, beside the program and the backend.
std::uint64_t configuration_of(const Settings& settings) {
  sim::ContentHash hash;
  hash.add(std::string_view(settings.as_command_line()));
  if (train_iters(settings) > 0) hash.add(std::string_view(training_text(settings)));
  return hash.value();
}

CheckResult check_of(const TwinRow& row, const Backend& backend) {
  if (!row.is_equal()) return {row.name, false, row.difference};
  const std::string where = backend.processes() == 1 ? "" : counted(backend.processes(), "process") + ": ";
  const std::string what = fmt::format("{} of {} bytes", counted(row.tensors, "tensor"), row.bytes);
  if (row.is_bounded) {
    return {row.name, true,
            fmt::format("{}{} within the bounds of the serial reference, {} equal to those of virtual ranks",
                        where, what, counted(row.calls, "call record"))};
  }
  return {row.name, true,
          fmt::format("{}{} and {} equal to those of virtual ranks, bit for bit", where, what,
                      counted(row.calls, "call record"))};
}

}  // namespace

BackendReplay replay_on_backend(Scenario scenario, const OpenBackend& open_gpu, std::ostream& err) {
  Settings& settings = scenario.settings;
  if (!settings.has("train-iters")) settings.append("train-iters", {std::to_string(kBackendTrainIters)});
  check_options(settings, backend_name(settings));
  const sim::Layout layout = requested_layout(settings);
  std::optional<TrainedModel> model;
  if (train_iters(settings) > 0) model = trained_model(settings, layout);
  const BackendRequest request = backend_request(settings, configuration_of(settings));
  if (request.name != "cuda") sim::check_processes(layout, request.launch);
  BackendReplay result;
  result.backend = open_backend(request, open_gpu, err);
  Backend& backend = *result.backend;
  const auto tell_nobody = [](std::size_t, const std::string&) {};
  const TwinVerdict verdict =
      concluded(backend, run_twins(backend, programs(settings, layout, model, backend), tell_nobody), "");
  result.exit_code = verdict.exit_code;
  result.report.path = scenario.path;
  result.report.name = scenario.name;
  result.report.source = scenario.source;
  result.report.layout = layout;
  for (const TwinRow& row : verdict.rows) result.report.checks.push_back(check_of(row, backend));
  return result;
}

}  // namespace verify
