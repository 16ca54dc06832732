#include "verify/cases/gpt_case.h"

#include <limits>
#include <numeric>
#include <set>

#include "sim/base/check.h"
#include "sim/tensor/checks.h"
#include "verify/cases/gpt_calls.h"
#include "verify/cases/gpt_plan.h"
#include "verify/cases/gpt_reference.h"
#include "verify/cases/spread.h"

namespace verify {

namespace {

/// Returns a tensor of the shape of this rank's parameter, with the pieces that the rank owns in their places
/// and zeros elsewhere.
sim::Tensor owned(sim::Rank& rank, sim::DistributedOptimizer& optimizer, const sim::Parameter& parameter,
                  sim::Tensor sim::DistributedOptimizer::Piece::*member) {
  const sim::Tensor all = sim::filled(rank.device, parameter.main_grad.dtype(), {parameter.value.count()}, 0);
  for (const auto& piece : optimizer.pieces()) {
    if (piece.parameter != &parameter) continue;
    sim::Tensor to = all.rows(piece.range.begin, piece.range.end);
    sim::copy(piece.*member, to);
  }
  return all.reshaped(parameter.value.shape());
}

/// Whether an error may have exchanged two experts of a token.
bool is_open(const reference::Matrix<reference::Bounded>& scores, const reference::RouterSetting& setting) {
  for (Eigen::Index t = 0; t < scores.rows(); ++t) {
    const std::vector<reference::Bounded> row(scores.row(t).data(), scores.row(t).data() + scores.cols());
    if (!reference::chosen_experts(row, setting).is_sure) return true;
  }
  return false;
}

/// Whether an error may have exchanged two tokens of a rank, of which an expert keeps one.
bool may_keep_others(const reference::Matrix<reference::Bounded>& probabilities, const GptPlan& plan) {
  const reference::CapacitySetting setting = plan.experts().capacity(probabilities.cols());
  for (Eigen::Index i = 0; i < probabilities.rows(); ++i) {
    const std::vector<reference::Bounded> row(probabilities.row(i).data(),
                                              probabilities.row(i).data() + probabilities.cols());
    std::vector<Eigen::Index> chosen;
    for (Eigen::Index t = 0; t < probabilities.cols(); ++t)
      if (row[static_cast<std::size_t>(t)].value() != kNotChosen) chosen.push_back(t);
    if (!reference::ChosenColumns<reference::Bounded>(row, chosen, setting.capacity).is_sure) return true;
  }
  return false;
}

/// Returns the first step in which an error may have exchanged two experts, by the scores that the reference
/// returns, or two tokens of an expert with a capacity; the number of steps if there is none. The experts
/// that a balance loss counts are of all groups.
std::int64_t first_open_step(const Wholes<reference::Bounded>& wholes, const GptPlan& plan) {
  const reference::RouterSetting dispatched = plan.experts().sizes().router;
  const reference::RouterSetting counted = {.topk = dispatched.topk};
  for (std::int64_t step = 0; step < plan.s["steps"]; ++step) {
    const auto end = wholes.lower_bound(choice_name(step + 1));
    for (auto scores = wholes.lower_bound(choice_name(step)); scores != end; ++scores) {
      const auto is_of = [&](const char* what) { return scores->first.find(what) != std::string::npos; };
      const bool open = is_of(kKeptTokens)
                            ? may_keep_others(scores->second, plan)
                            : is_open(scores->second, is_of(kCountedExperts) ? counted : dispatched);
      if (open) return step;
    }
  }
  return plan.s["steps"];
}

/// Returns the outputs without the scores. Where a choice is open, only the losses and norms of the steps
/// before it can be judged.
Wholes<reference::Bounded> judged(Wholes<reference::Bounded> wholes, const GptPlan& plan) {
  if (!plan.has_experts()) return wholes;
  const std::int64_t open = first_open_step(wholes, plan);
  std::erase_if(wholes, [](const auto& whole) { return whole.first.starts_with(kChoice); });
  if (open == plan.s["steps"]) return wholes;
  std::set<std::string> known = {"loss_scale", "most_in_flight"};
  for (std::int64_t step = 0; step < open; ++step) {
    known.insert(fmt::format("loss of step {}", step));
    known.insert(fmt::format("grad norm squared of step {}", step));
  }
  for (auto& [name, whole] : wholes) {
    if (known.contains(name)) continue;
    for (Eigen::Index i = 0; i < whole.size(); ++i)
      whole.data()[i] = reference::Bounded(whole.data()[i].value(), -1, nullptr);
  }
  return wholes;
}

/// What is drawn for a training: a dense model, one that has layers with experts, or either of them on
/// context-parallel ranks.
enum class Drawn { dense, experts, context };

class GptTrainingCase : public CaseOf<GptTrainingCase> {
 public:
  explicit GptTrainingCase(Drawn drawn) : drawn_(drawn) {}
  std::string name() const override {
    if (drawn_ == Drawn::context) return "cp_training";
    return drawn_ == Drawn::experts ? "moe_training" : "gpt_training";
  }
  Ranks ranks() const override { return Ranks::world; }
  sim::FieldFunctions field_functions() const override { return sim::FieldFunctions::keyed; }
  sim::ParallelSizes sizes(const CaseSetting& s) const override {
    const GptPlan plan{s};
    return {.world_size = s.group_size,
            .tensor_model_parallel_size = plan.tp(),
            .pipeline_model_parallel_size = plan.pp(),
            .virtual_pipeline_model_parallel_size = plan.pipeline().virtual_pipeline_model_parallel_size,
            .context_parallel_size = plan.cp(),
            .expert_model_parallel_size = plan.has_experts() ? plan.experts().ep() : 1,
            .expert_tensor_parallel_size =
                plan.has_experts() ? std::optional<std::int64_t>(plan.experts().etp()) : std::nullopt,
            .hierarchical_context_parallel_sizes = plan.hierarchical_sizes(),
            .order = plan.order()};
  }
  std::vector<Dimension> dimensions() const override {
    std::vector<Dimension> all = dense_dimensions();
    if (drawn_ == Drawn::dense) return all;
    // What has nothing to do with experts or context parallelism is drawn by gpt_training.
    Dimensions fixed = {{"vocabulary", 2}, {"padding", 0},      {"tied", 0},
                        {"window", 0},     {"qk_layernorm", 0}, {"rms_norm", 1}};
    Dimensions most = {{"scaled", 1}};
    if (drawn_ == Drawn::context) {
      fixed["gated"] = 1;
      most.insert({{"latent", 1}, {"sequence", 2}, {"tp", 2}, {"pp", 2}});
      add_context(all);
    } else {
      fixed.insert({{"queries", 1}, {"latent", 0}, {"rotary", 1}});
      std::erase_if(all, [](const Dimension& d) { return d.name == "sequence_parallel"; });
    }
    for (Dimension& d : all) {
      if (fixed.contains(d.name)) d = {d.name, fixed.at(d.name), fixed.at(d.name)};
      if (most.contains(d.name)) d.most = most.at(d.name);
    }
    const std::vector<Dimension> of_experts = {
        {.name = "ep", .least = 1, .most = 4, .at = at_scenario::experts, .is_an_axis = true},
        {.name = "etp", .least = 1, .most = 2, .at = at_scenario::expert_tensor_parallel, .most_needs = "tp"},
        {"local_experts", 1, 2},
        {"topk", 1, 2},
        {"dispatcher", 0, 2},
        {"dense_layers", 0, 1},
        {"sigmoid", 0, 1},
        {"shared", 0, 2},
        {"balance", 0, 4},
        {"dropping", 0, 2},
        {"padded", 0, 1}};
    all.insert(all.end(), of_experts.begin(), of_experts.end());
    if (drawn_ == Drawn::context) all.push_back({"longest_last", 0, 1});
    return all;
  }
  /// Adds context parallelism, packed documents, and whether the model has experts. A sequence has at least
  /// 2 cp tokens.
  static void add_context(std::vector<Dimension>& all) {
    all.insert(all.end(), {{.name = "cp", .least = 1, .most = 4, .at = at_scenario::cp, .is_an_axis = true},
                           {.name = "cp_comm_type", .least = 0, .most = 4, .most_needs = "cp"},
                           {"whole_sequence_loss", 0, 1},
                           {"documents", 1, 3},
                           {.name = "experts", .least = 0, .most = 1, .at = at_scenario::has_experts}});
  }
  static std::vector<Dimension> dense_dimensions() {
    return {{.name = "tp", .least = 1, .most = 4, .at = at_scenario::tp, .is_an_axis = true},
            {.name = "pp", .least = 1, .most = 4, .at = at_scenario::pp, .is_an_axis = true},
            {.name = "schedule", .least = 0, .most = 3, .at = at_scenario::schedule, .most_needs = "pp"},
            {"layers", 1, 2},
            {"microbatches", 1, 3},
            {"micro_batch", 1, 2},
            {"sequence", 1, 3},
            {"hidden", 1, 4},
            {.name = "queries", .least = 1, .most = 2, .at = at_scenario::queries},
            {"half_channels", 1, 1},
            {"ffn", 1, 2},
            {"vocabulary", 2, 4},
            {"padding", 0, 1},
            {"steps", 1, 3},
            {"loss", 0, 2},
            {"ignored", 0, 1},
            {.name = "tied", .least = 0, .most = 1, .at = at_scenario::tied},
            {.name = "sequence_parallel",
             .least = 0,
             .most = 1,
             .at = at_scenario::sequence_parallel,
             .most_needs = "tp"},
            {.name = "rotary", .least = 0, .most = 1, .at = at_scenario::rotary},
            {.name = "rms_norm", .least = 0, .most = 1, .at = at_scenario::rms_norm},
            {.name = "qk_layernorm", .least = 0, .most = 1, .at = at_scenario::qk_layernorm},
            {.name = "window", .least = 0, .most = 2, .at = at_scenario::window},
            {.name = "latent", .least = 0, .most = 2, .at = at_scenario::latent},
            {.name = "gated", .least = 0, .most = 1, .at = at_scenario::gated},
            {.name = "bias", .least = 0, .most = 2, .at = at_scenario::biases},
            {"recompute", 0, 1},
            {"distributed", 0, 1},
            {"overlap", 0, 1},
            {"bucket", 0, 40},
            {"clip", 0, 1},
            {"scaled", 0, 2}};
  }

  /// Losses come first, then gradients from the last layer to the first: this is the order in which a mistake
  /// becomes visible.
  std::vector<CaseOutput> outputs(const CaseSetting& s) const override {
    const GptPlan plan{s};
    const std::vector<GptPlan::Place> places = plan.places();
    std::vector<CaseOutput> outputs;
    for (std::int64_t step = first_step(s); step < end_step(s); ++step)
      outputs.push_back(on_stage(plan.pp() - 1, fmt::format("loss of step {}", step), places));
    std::vector<GptParameter> parameters = plan.parameters();
    std::ranges::reverse(parameters);
    const bool adds = s["distributed"] == 1;
    for (const GptParameter& parameter : parameters) {
      if (plan.shows_gradients()) outputs.push_back(plan.output(parameter, ".grad", adds, places));
    }
    for (std::int64_t step = first_step(s); step < end_step(s); ++step) {
      if (!plan.skips(step)) outputs.push_back({.name = fmt::format("grad norm squared of step {}", step)});
    }
    for (const GptPlan::BiasedRouter& router : plan.biased_routers())
      outputs.push_back(on_stage(router.stage % plan.pp(), router.name + ".expert_bias", places));
    if (plan.is_scaled()) outputs.push_back({.name = "loss_scale"});
    if (!s.stretch) {
      CaseOutput most{.name = "most_in_flight", .placement = Placement::columns};
      for (const GptPlan::Place& place : places) most.part_of.push_back(place.pp);
      most.is_of_the_way = true;
      outputs.push_back(std::move(most));
    }
    for (const GptParameter& parameter : parameters) {
      for (const char* what : {".exp_avg", ".exp_avg_sq", ".main"})
        outputs.push_back(plan.output(parameter, what, adds, places));
      outputs.push_back(plan.output(parameter, "", false, places));
    }
    return outputs;
  }

  /// Twins use other schedules, with and without overlap and recomputation. In the field they also train the
  /// same model on other layouts and rank orders of the same world, with other microbatches and buckets, with
  /// and without ZeRO-1, with other dispatchers, and with masked tokens at the ends of samples.
  std::vector<CaseSetting> twins(const CaseSetting& s) const override {
    const GptPlan plan{s};
    const CaseSetting first = of_fixed_model(s);
    const sim::KeyedRandom random = sim::KeyedRandom(s.seed).named("twins");
    std::vector<CaseSetting> all = {first};
    for (std::uint64_t i = 0; i < 3; ++i) {
      const auto draw = [&](std::uint64_t what, std::int64_t choices) {
        return std::int64_t{random.below(i * 16 + what, static_cast<std::uint32_t>(choices))};
      };
      CaseSetting twin = first;
      // The scenario's groups of microbatches fit its own layout alone.
      if (s.fixed("microbatch_group", 0) > 0) twin.dimensions["microbatch_group"] = 0;
      twin.dimensions["schedule"] = plan.is_interleaved() ? 3 : draw(0, 3);
      twin.dimensions["recompute"] = draw(1, 2);
      twin.dimensions["overlap"] = draw(2, 2);
      if (s.dtype == sim::DType::field) {
        draw_layout(plan, draw, twin);
        // A model with learned positions has one for each token of a sequence, so padding would change it.
        if (s["rotary"] == 1 && !counts_tokens(plan)) twin.dimensions["pad"] = draw(10, 2);
      }
      if (is_the_same_model(first, twin)) all.push_back(std::move(twin));
    }
    return all;
  }

  /// The layout in between has as many ranks or fewer.
  std::vector<CaseSetting> stretches(const CaseSetting& s) const override {
    const CaseSetting whole = of_fixed_model(s);
    return in_stretches(whole, other_layout(whole, sim::KeyedRandom(s.seed).named("stretches")));
  }
  std::vector<NamedNumber> factors(const CaseSetting& s) const override {
    const GptPlan plan{s};
    std::vector<NamedNumber> numbers = {{"tp", plan.tp()},
                                        {"pp", plan.pp()},
                                        {"cp", plan.cp()},
                                        {"dp", plan.dp()},
                                        {"microbatches", plan.microbatches()},
                                        {"micro_batch", s["micro_batch"]}};
    if (plan.has_experts()) {
      const GptExpertsPlan experts = plan.experts();
      numbers.insert(numbers.end(), {{"ep", experts.ep()},
                                     {"etp", experts.etp()},
                                     {"edp", experts.edp()},
                                     {"topk", experts.topk()},
                                     {"experts", experts.number()}});
    }
    for (std::int64_t step = 0; step < s["steps"]; ++step) {
      std::int64_t tokens = 0;
      for (std::int64_t i = 0; i < plan.global_batch(); ++i)
        tokens += tokens_with_loss(plan.reference_sample(step * plan.global_batch() + i));
      numbers.push_back({fmt::format("tokens of step {}", step), tokens});
    }
    return numbers;
  }
  std::vector<ExpectedCall> calls(const CaseSetting& s) const override { return expected_of(s, 0).calls; }
  ExpectedRun expected_of(const CaseSetting& s, int rank) const override { return expected_by_rank(s)(rank); }
  /// All ranks share the experts that the reference chooses.
  ExpectedOfRank expected_by_rank(const CaseSetting& s) const override {
    const GptPlan plan{s};
    std::shared_ptr<ChosenExperts> chosen;
    if (plan.has_experts() && plan.experts().are_rows_chosen()) {
      // In floats an error may exchange two experts, and with them the sizes of calls.
      if (s.dtype != sim::DType::field)
        return [](int) { return ExpectedRun{.calls = {}, .departure = {}, .is_known = false}; };
      const sim::FieldTower tower(s.seed, field_functions());
      chosen = std::make_shared<ChosenExperts>();
      gpt_reference(Inputs<sim::Field>(s, reference::Number<sim::Field>(tower)), plan, chosen.get());
    }
    return [s, chosen](int rank) { return expected_gpt_run(GptPlan{s}, rank, chosen.get()); };
  }

  void run(sim::Rank& rank, const CaseSetting& s) const override {
    const GptPlan plan{s};
    sim::GptTraining training(rank, plan.training(), [&](std::int64_t number) {
      overflow_where_planned(plan, rank.id, training, number);
      return plan.sample(number);
    });
    train_and_publish(rank, plan, training,
                      [&](std::int64_t step) { return training.step(step, plan.learning_rate()); });
  }

  /// In f32 and bf16 the bounds of so many operations, each taken at its worst, are too wide to be useful, so
  /// that the bounds are the spread of perturbed runs. The same holds in f64 if a bound has become infinite,
  /// as with twelve layers, three steps and a variance near 0.
  Wholes<reference::Bounded> serial(const Inputs<reference::Bounded>& inputs,
                                    const CaseSetting& s) const override {
    const GptPlan plan{s};
    if (s.dtype != sim::DType::f64) return judged(spread_of(s), plan);
    Wholes<reference::Bounded> wholes = reference(inputs, s);
    return judged(s.special != Special::none || is_bounded(wholes) ? wholes : spread_of(s), plan);
  }
  using CaseOf<GptTrainingCase>::serial;

  template <typename Scalar>
  Wholes<Scalar> reference(const Inputs<Scalar>& inputs, const CaseSetting& s) const {
    return gpt_reference(inputs, GptPlan{s});
  }

 private:
  /// The declaration of an output that all ranks of a pipeline stage publish.
  static CaseOutput on_stage(std::int64_t pp_rank, std::string name,
                             const std::vector<GptPlan::Place>& places) {
    CaseOutput output{.name = std::move(name)};
    for (const GptPlan::Place& place : places) output.part_of.push_back(place.pp == pp_rank ? 0 : -1);
    return output;
  }

  /// Returns the setting with the sizes of the model and of the batch fixed, so that other layouts can train
  /// the same model.
  CaseSetting of_fixed_model(const CaseSetting& s) const {
    const GptPlan plan{s};
    CaseSetting fixed = s;
    fixed.dimensions["whole"] = plan.whole();
    fixed.dimensions["num_layers"] = plan.num_layers();
    fixed.dimensions["global_batch"] = plan.global_batch();
    if (drawn_ == Drawn::context) {
      fixed.dimensions["sequence_unit"] = plan.sequence_unit();
      fixed.dimensions["document_unit"] = plan.document_unit();
    }
    if (plan.has_experts()) {
      fixed.dimensions["num_experts"] = plan.experts().number();
      fixed.dimensions["whole_etp"] = plan.experts().whole_etp();
    }
    // With ignored tokens, a mean of means depends on how samples are divided into microbatches.
    if (s["ignored"] == 1) fixed.dimensions["loss"] = 2;
    return fixed;
  }

  /// Draws another layout for a setting, in which the model of the plan gives the same values. draw(what,
  /// choices) is a number from 0 to choices - 1.
  template <typename Draw>
  void draw_layout(const GptPlan& plan, const Draw& draw, CaseSetting& s) const {
    s.dimensions["distributed"] = draw(3, 2);
    s.dimensions["bucket"] = draw(4, 40);
    if (!counts_ranks(plan)) s.dimensions["tp"] = 1 + draw(5, 4);
    s.dimensions["pp"] = 1 + draw(6, 4);
    if (!counts_microbatches(plan)) s.dimensions["micro_batch"] = 1 + draw(7, 4);
    s.dimensions["schedule"] = draw(8, 4);
    // Dense parameters and experts have the same stages in the first order alone.
    if (!plan.has_experts()) s.dimensions["order"] = draw(9, std::ssize(GptPlan::kOrders));
    if (drawn_ == Drawn::context) {
      if (!counts_ranks(plan)) s.dimensions["cp"] = 1 + draw(14, 4);
      s.dimensions["cp_comm_type"] = draw(15, 5);
    }
    if (!plan.has_experts()) return;
    s.dimensions["ep"] = 1 + draw(11, 4);
    s.dimensions["etp"] = 1 + draw(12, 2);
    s.dimensions["dispatcher"] = draw(13, 3);
  }

  /// Returns a setting that trains the same model on another layout, if one of a few that are drawn can.
  CaseSetting other_layout(const CaseSetting& whole, const sim::KeyedRandom& random) const {
    constexpr std::uint64_t kAttempts = 8, kDraws = 32;
    const GptPlan plan{whole};
    for (std::uint64_t i = 1; i <= kAttempts; ++i) {
      const auto draw = [&](std::uint64_t what, std::int64_t choices) {
        return std::int64_t{random.below(i * kDraws + what, static_cast<std::uint32_t>(choices))};
      };
      CaseSetting other = whole;
      other.group_size = static_cast<int>(1 + draw(0, whole.group_size));
      if (whole.fixed("microbatch_group", 0) > 0) other.dimensions["microbatch_group"] = 0;
      draw_layout(plan, draw, other);
      if (is_the_same_model(whole, other)) return other;
    }
    return whole;
  }

  /// Whether a loss of the routers, or what experts keep, depends on what the tokens of a microbatch choose
  /// together.
  static bool counts_microbatches(const GptPlan& plan) {
    using enum GptExpertsPlan::Balance;
    if (!plan.has_experts()) return false;
    return plan.experts().balance() == aux_loss || plan.experts().balance() == global_aux_loss ||
           counts_ranks(plan);
  }
  /// Whether experts keep tokens of each rank by themselves, so that the ranks of a microbatch matter.
  static bool counts_ranks(const GptPlan& plan) {
    return plan.has_experts() && plan.experts().has_capacity();
  }
  /// Whether every token counts, also one without a loss.
  static bool counts_tokens(const GptPlan& plan) {
    if (!plan.has_experts()) return false;
    return plan.experts().has_expert_bias() || plan.experts().balance() != GptExpertsPlan::Balance::none ||
           counts_ranks(plan);
  }
  /// Returns whether the twin's layout divides the sizes that are fixed for all twins.
  static bool is_the_same_model(const CaseSetting& first, const CaseSetting& twin) {
    const GptPlan plan{twin}, own{first};
    const std::int64_t batch = first["global_batch"], of_ranks = twin["micro_batch"] * plan.dp();
    if (first["whole"] % plan.tp() != 0 || first["num_layers"] % plan.stages() != 0) return false;
    if (batch % of_ranks != 0) return false;
    if (!divides_sequences(plan)) return false;
    // Context-parallel ranks are replicas of experts, so that only orders that end with pp are allowed.
    if (plan.cp() > 1 && plan.pp() > 1 && !std::string_view(plan.order()).ends_with("pp")) return false;
    if (plan.has_experts() && !divides_experts(own, plan)) return false;
    return !plan.is_interleaved() || (batch / of_ranks) % plan.pp() == 0;
  }

  static bool divides_experts(const GptPlan& first, const GptPlan& plan) {
    const GptExpertsPlan experts = plan.experts();
    if (experts.number() % experts.ep() != 0 || experts.whole_etp() % experts.etp() != 0) return false;
    const bool depends_on_dp = experts.balance() == GptExpertsPlan::Balance::global_aux_loss;
    if (depends_on_dp && plan.dp() != first.dp()) return false;
    return !counts_ranks(plan) || (plan.tp() == first.tp() && plan.cp() == first.cp());
  }

  /// Whether the twin's ranks can have parts of the sequences and of the heads. Padding changes how many
  /// tokens with a loss each context-parallel rank has, and so the mean of their means.
  static bool divides_sequences(const GptPlan& plan) {
    const std::vector<std::int64_t> documents = plan.documents();
    const std::int64_t cp = plan.cp();
    if (cp > 1 && std::ranges::any_of(documents, [=](std::int64_t length) { return length % (2 * cp) != 0; }))
      return false;
    if (plan.divides_sequences() && plan.seq_length() / cp % plan.tp() != 0) return false;
    if (plan.has_loss_of_ranks() && plan.s.fixed("pad", 0) == 1) return false;
    const int exchanging = exchanging_ranks(plan.cp_comm_type(), plan.cp(), plan.inner_cp());
    return plan.model().num_query_groups / plan.tp() % exchanging == 0;
  }

  Wholes<reference::Bounded> spread_of(const CaseSetting& s) const {
    const reference::Rounding rounding = rounding_of(s.dtype, 1);
    const auto run = [&](reference::Perturbation by) {
      const reference::Number<reference::Perturbed> number(by);
      return reference(Inputs<reference::Perturbed>(s, number), s);
    };
    return s.text ? spread(rounding, run, reference::kFewRuns, 2) : spread(rounding, run, {}, 1);
  }

  Drawn drawn_;
};

}  // namespace

void train_and_publish(sim::Rank& rank, const GptPlan& plan, sim::GptTraining& training,
                       const std::function<sim::GptTraining::Result(std::int64_t)>& step) {
  using Piece = sim::DistributedOptimizer::Piece;
  sim::DistributedOptimizer& optimizer = training.optimizer();
  const auto publish_number = [&](const char* name, std::int64_t number) {
    rank.publish(name,
                 sim::filled(rank.device, sim::sum_dtype(plan.s.dtype), {1}, static_cast<double>(number)));
  };
  if (first_step(plan.s) > 0) {
    const std::int64_t saved_at = training.load(*plan.s.stretch->store);
    SIM_CHECK(saved_at == first_step(plan.s));
  }
  for (std::int64_t i = first_step(plan.s); i < end_step(plan.s); ++i) {
    const auto result = step(i);
    if (!result.loss.is_none()) rank.publish(fmt::format("loss of step {}", i), result.loss);
    if (!plan.skips(i) && !optimizer.grad_norm_squared().is_none())
      rank.publish(fmt::format("grad norm squared of step {}", i), optimizer.grad_norm_squared());
  }
  // With overlap, the last gather is still under way when the save begins.
  if (plan.s.stretch && plan.s.stretch->saves) training.save(*plan.s.stretch->store, end_step(plan.s));
  optimizer.finish_param_gather();
  for (const sim::Parameter* parameter : training.parameters()) {
    const auto publish = [&](const char* what, sim::Tensor Piece::*member) {
      rank.publish(parameter->name + what, owned(rank, optimizer, *parameter, member));
    };
    if (plan.shows_gradients()) publish(".grad", &Piece::grad);
    publish(".exp_avg", &Piece::exp_avg);
    publish(".exp_avg_sq", &Piece::exp_avg_sq);
    publish(".main", &Piece::main);
    rank.publish(parameter->name, parameter->value);
  }
  for (sim::GptModel& chunk : training.chunks()) {
    for (sim::TopKRouter* router : chunk.routers())
      if (router->config().expert_bias)
        rank.publish(router->config().name + ".expert_bias", router->expert_bias());
  }
  if (plan.is_scaled()) publish_number("loss_scale", optimizer.loss_scale().numerator);
  if (!plan.s.stretch) publish_number("most_in_flight", training.most_in_flight());
}

void overflow_where_planned(const GptPlan& plan, int rank, sim::GptTraining& training, std::int64_t sample) {
  if (!plan.overflows(sample / plan.global_batch(), rank)) return;
  sim::fill(training.parameters().front()->main_grad, std::numeric_limits<double>::infinity());
}

std::unique_ptr<Case> gpt_training_case() { return std::make_unique<GptTrainingCase>(Drawn::dense); }
std::unique_ptr<Case> moe_training_case() { return std::make_unique<GptTrainingCase>(Drawn::experts); }
std::unique_ptr<Case> cp_training_case() { return std::make_unique<GptTrainingCase>(Drawn::context); }

}  // namespace verify
