#include "verify/text_training.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fmt/format.h>
#include <fstream>
#include <sstream>
#include <utility>

#include "sim/base/error.h"
#include "sim/tensor/counting_device.h"
#include "verify/assembled.h"
#include "verify/counted.h"
#include "verify/explanation.h"
#include "verify/properties.h"
#include "verify/scalars.h"
#include "verify/scenario.h"
#include "verify/world_options.h"

namespace verify {

namespace {

constexpr std::int64_t kSequence = 4;

std::string training_text(const Settings& settings) {
  const std::string path = settings.text("text", scenario_folder() + "/../README.md");
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  if (file) text << file.rdbuf();
  if (!file || file.bad()) {
    sim::refuse({.code = "training_text",
                 .option = "--text",
                 .numbers = fmt::format("{}: {}", path, std::strerror(errno)),
                 .rule = "a text is a file that can be read",
                 .hint = "--text README.md"});
  }
  return text.str();
}

/// The scenario's tp, pp and replicas, as large as they are trained.
struct TrainedSizes {
  int tp, pp, dp;
  int world() const { return tp * pp * dp; }
};

/// The largest divisor of a size that leaves it at most as large.
int folded(int size, int most) {
  int divisor = std::clamp(most, 1, size);
  while (size % divisor != 0) --divisor;
  return divisor;
}

TrainedSizes trained_sizes(const sim::Layout& layout) {
  TrainedSizes sizes{layout.tp, layout.pp, layout.dp * layout.cp};
  sizes.dp = folded(sizes.dp, std::max(kMostTrainingRanks / (sizes.tp * sizes.pp), 1));
  sizes.pp = folded(sizes.pp, std::max(kMostTrainingRanks / sizes.tp, 1));
  sizes.tp = folded(sizes.tp, kMostTrainingRanks);
  return sizes;
}

CaseSetting training_setting(const Settings& settings, const sim::Layout& layout) {
  const TrainedSizes sizes = trained_sizes(layout);
  const std::int64_t chunks = settings.number("virtual-pipeline-model-parallel-size").value_or(1);
  const bool is_interleaved = chunks > 1 && sizes.pp > 1;
  const bool sp = settings.flag("sequence-parallel") && sizes.tp > 1;
  CaseSetting setting{.tp = sizes.world(),
                      .ranks = Ranks::world,
                      .seed = static_cast<std::uint64_t>(settings.number("seed").value_or(0))};
  const std::int64_t length = sp ? (kSequence + sizes.tp - 1) / sizes.tp * sizes.tp : kSequence;
  setting.text =
      std::make_shared<const sim::TextCorpus>("--text", training_text(settings), length, setting.seed);
  const auto flag = [&](const char* name) -> std::int64_t { return settings.flag(name) ? 1 : 0; };
  setting.dimensions = {{"tp", sizes.tp},
                        {"pp", sizes.pp},
                        {"schedule", is_interleaved ? 3 : 2},
                        {"chunks", chunks},
                        {"layers", 1},
                        {"microbatches", is_interleaved ? 1 : 2},
                        {"micro_batch", 1},
                        {"sequence", sp ? length / sizes.tp : length},
                        {"hidden", 4},
                        {"queries", 1},
                        {"half_channels", 1},
                        {"ffn", std::max<std::int64_t>(16 / sizes.tp, 1)},
                        {"vocabulary", 0},
                        {"padding", 0},
                        {"steps", train_iters(settings)},
                        {"loss", 0},
                        {"ignored", 0},
                        {"tied", 1 - flag("untie-embeddings-and-output-weights")},
                        {"sequence_parallel", sp ? 1 : 0},
                        {"rotary", settings.choice("position-embedding-type") == "rope" ? 1 : 0},
                        {"rms_norm", settings.choice("normalization") == "RMSNorm" ? 1 : 0},
                        {"gated", flag("swiglu")},
                        {"bias", 1 - flag("disable-bias-linear")},
                        {"recompute", 0},
                        {"distributed", 1},
                        {"overlap", 1},
                        {"bucket", 0},
                        {"clip", 1}};
  return setting;
}

std::string text_of_world(const CaseSetting& setting, const sim::Layout& layout) {
  const auto size = [](const char* name, std::int64_t reduced, int whole) {
    return reduced == whole ? fmt::format("{} {}", name, whole)
                            : fmt::format("{} {} for {}", name, reduced, whole);
  };
  const std::int64_t tp = setting["tp"], pp = setting["pp"];
  return size("tp", tp, layout.tp) + ", " + size("pp", pp, layout.pp) + ", " +
         size("dp", setting.tp / (tp * pp), layout.dp * layout.cp);
}

/// One number a step, from a tensor by that name.
template <typename Value>
std::vector<double> losses(const CaseSetting& setting, const Value& value_of) {
  std::vector<double> all;
  for (std::int64_t step = 0; step < setting["steps"]; ++step)
    all.push_back(value_of(fmt::format("loss of step {}", step)));
  return all;
}

CaseOutput output_named(const Case& the_case, const CaseSetting& setting, const std::string& name) {
  const std::vector<CaseOutput> outputs = the_case.outputs(setting);
  return *std::find_if(outputs.begin(), outputs.end(), [&](const CaseOutput& o) { return o.name == name; });
}

const Property& serial_property() {
  const auto& all = all_properties();
  return *std::find_if(all.begin(), all.end(),
                       [](const Property& p) { return std::strcmp(p.name, "serial") == 0; });
}

}  // namespace

void check_training_text(const Settings& settings) {
  constexpr std::int64_t kLongest = 64;  // of a sequence, over as many tensor-parallel ranks as there are
  sim::TextCorpus("--text", training_text(settings), kLongest, 0);
}

std::int64_t train_iters(const Settings& settings) {
  constexpr std::int64_t kMost = 1000;
  const std::int64_t steps = settings.number("train-iters").value_or(kTrainIters);
  if (steps <= kMost) return steps;
  sim::refuse(
      {.code = "train_iters",
       .option = "--train-iters",
       .numbers = fmt::format("{}", steps),
       .rule = fmt::format("replay trains up to {} steps, each twice and on one device as well", kMost),
       .hint = "--train-iters 20"});
}

Training train_on_text(const Settings& settings, const sim::Layout& layout, Bench& bench) {
  const Case& the_case = *find_case("gpt_training");
  CaseSetting setting = training_setting(settings, layout);
  Training training{.check = {"training", true, ""}, .curve = {.world = text_of_world(setting, layout)}};
  const Judgement in_field = serial_property().judge(bench, the_case, setting);
  training.curve.is_equal_in_field = in_field.holds;
  Judgement judgement = in_field;
  if (!in_field.holds) judgement.detail += ". " + explanation(bench, the_case, serial_property(), setting);

  setting.dtype = sim::DType::f32;
  const auto run = bench.run(the_case, setting);
  const reference::Rounding rounding = reference::rounding_of_f32(1);
  const Wholes<reference::Bounded> wholes = the_case.serial(
      Inputs<reference::Bounded>(setting, reference::Number<reference::Bounded>(rounding)), setting);
  if (judgement.holds) judgement = judge_floats(the_case, setting, *run, wholes);
  if (run->ok()) {
    training.curve.losses = losses(setting, [&](const std::string& name) {
      return assembled<double>(*run, output_named(the_case, setting, name), setting.tp).values.front();
    });
  }
  training.curve.reference =
      losses(setting, [&](const std::string& name) { return wholes.at(name)(0, 0).value(); });
  training.curve.bounds =
      losses(setting, [&](const std::string& name) { return wholes.at(name)(0, 0).error(); });
  training.check.holds = judgement.holds;
  training.check.detail = judgement.holds
                              ? fmt::format("{} at {}: loss {:.4f} to {:.4f}, as on one device",
                                            counted(setting["steps"], "step"), training.curve.world,
                                            training.curve.losses.front(), training.curve.losses.back())
                              : fmt::format("{}: {}", training.curve.world, judgement.detail);
  return training;
}

TracedRun trace_training(const Settings& settings, const sim::Layout& layout) {
  const Case& the_case = *find_case("gpt_training");
  CaseSetting setting = training_setting(settings, layout);
  setting.dtype = sim::DType::f32;
  const std::int64_t all = setting["steps"];
  const std::int64_t steps = setting.dimensions["steps"] = std::min(all, kMostTracedSteps);
  sim::WorldSpec spec =
      requested_world(settings, sim::make_layout(the_case.sizes(setting), sim::RuleBook::megatron));
  spec.seed = setting.seed;
  spec.stack_bytes = sim::kDefaultStackBytes;
  sim::CpuDevice cpu;
  sim::CountingDevice device(cpu);
  sim::RunReport run = sim::simulate(spec, device, [&](sim::Rank& rank) { the_case.run(rank, setting); });
  return traced_run(
      fmt::format("training steps 1 to {} of {}, in f32 at {}", steps, all, text_of_world(setting, layout)),
      spec, std::move(run));
}

}  // namespace verify
