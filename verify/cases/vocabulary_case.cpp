#include <algorithm>
#include <utility>

#include "sim/parallel/region.h"
#include "sim/parallel/vocab_parallel_cross_entropy.h"
#include "sim/parallel/vocab_parallel_embedding.h"
#include "verify/cases/case_inputs.h"
#include "verify/cases/case_list.h"
#include "verify/cases/token_calls.h"
#include "verify/reference/cross_entropy.h"
#include "verify/reference/embedding.h"

namespace verify {

namespace {

using sim::Tensor;

class EmbeddingCase : public CaseOf<EmbeddingCase> {
 public:
  std::string name() const override { return "vocab_parallel_embedding"; }
  std::vector<Dimension> dimensions() const override {
    return {{.name = "tokens", .least = 1, .most = 6, .is_a_rank = true},
            {"hidden", 1, 9},
            {.name = "vocabulary", .least = 1, .most = 5, .is_a_rank = true},
            {.name = "sequence_parallel", .least = 0, .most = 1, .at = at_scenario::sequence_parallel}};
  }
  std::vector<CaseOutput> outputs(const CaseSetting& s) const override {
    const bool sp = s["sequence_parallel"] == 1;
    const Placement output = sp ? Placement::rows : Placement::replicated;
    return {{"weight", Placement::rows},
            {"output", output, 1, true},
            {"grad_output", output},
            {"weight_grad", Placement::rows, 1, true}};
  }
  std::vector<AdjointIdentity> adjoint(const CaseSetting&) const override {
    return {{{"weight", "weight_grad"}}};
  }
  std::vector<ExpectedCall> calls(const CaseSetting& s) const override {
    const TokenCalls tokens{.all = s.whole("tokens") * s["hidden"],
                            .tp = s.group_size,
                            .sequence_parallel = s["sequence_parallel"] == 1};
    std::vector<ExpectedCall> expected;
    tokens.embedding_forward(expected);
    tokens.embedding_backward(expected);
    return expected;
  }
  void run(sim::Rank& rank, const CaseSetting& s) const override {
    const bool sp = s["sequence_parallel"] == 1;
    sim::VocabParallelEmbedding layer(rank, {.name = "embedding",
                                             .dtype = s.dtype,
                                             .vocabulary = s.whole("vocabulary"),
                                             .hidden_size = s["hidden"],
                                             .sequence_parallel = sp});
    const auto forward = layer.forward(tensor_of_ids(rank, ids_of(s)));
    const Tensor grad = sp ? drawn_own_rows(rank, s, "grad_output", s.whole("tokens"), s["hidden"])
                           : drawn(rank, s, "grad_output", {s.whole("tokens"), s["hidden"]});
    layer.backward(forward.saved, grad);
    rank.publish("weight", layer.weight().value);
    rank.publish("output", forward.output);
    rank.publish("grad_output", grad);
    rank.publish("weight_grad", layer.weight().main_grad);
  }
  template <typename Scalar>
  Wholes<Scalar> reference(const Inputs<Scalar>& inputs, const CaseSetting& s) const {
    const auto table = inputs.parameter("embedding.weight", s.whole("vocabulary"), s["hidden"]);
    const auto grad = inputs.matrix("grad_output", s.whole("tokens"), s["hidden"]);
    const std::vector<std::int64_t> ids = inputs.ids("ids", ids_of(s));
    return {{"weight", table},
            {"output", reference::embedding(table, ids)},
            {"grad_output", grad},
            {"weight_grad", reference::embedding_gradient(inputs.number(), table, ids, grad)}};
  }

 private:
  static std::vector<std::int64_t> ids_of(const CaseSetting& s) {
    return drawn_ids(s, "ids", s.whole("tokens"), s.whole("vocabulary"));
  }
};

/// The last `padding` tenths of the vocabulary are padding. Every `ignored`-th token is ignored; with 1 no
/// token is ignored, and with 0 all are.
class CrossEntropyCase : public CaseOf<CrossEntropyCase> {
 public:
  std::string name() const override { return "vocab_parallel_cross_entropy"; }
  std::vector<Dimension> dimensions() const override {
    return {{"tokens", 1, 8},
            {.name = "vocabulary", .least = 1, .most = 9, .is_a_rank = true},
            {"padding", 0, 9},
            {"ignored", 0, 4},
            {"smoothing", 0, 3}};
  }
  std::vector<CaseOutput> outputs(const CaseSetting&) const override {
    return {{"loss", Placement::replicated}, {"grad_logits", Placement::columns}};
  }
  std::vector<ExpectedCall> calls(const CaseSetting& s) const override {
    std::vector<ExpectedCall> expected;
    loss_calls(s["tokens"], s["smoothing"] != 0, s.group_size, expected);
    return expected;
  }
  void run(sim::Rank& rank, const CaseSetting& s) const override {
    sim::VocabParallelCrossEntropy layer(
        rank, {.vocabulary = vocabulary(s), .ignored_id = kIgnored, .label_smoothing = {s["smoothing"], 10}});
    const Tensor logits = drawn_own_columns(rank, s, "logits", s["tokens"], s.whole("vocabulary"));
    const auto forward = layer.forward(logits, tensor_of_ids(rank, targets(s)));
    const Tensor grad = sim::cast(drawn(rank, s, "grad_loss", {s["tokens"]}), forward.loss.dtype());
    rank.publish("loss", forward.loss);
    rank.publish("grad_logits", layer.backward(forward.saved, grad));
  }
  template <typename Scalar>
  Wholes<Scalar> reference(const Inputs<Scalar>& inputs, const CaseSetting& s) const {
    const reference::CrossEntropySetting setting{.vocabulary = vocabulary(s),
                                                 .ignored_id = kIgnored,
                                                 .smoothing_numerator = s["smoothing"],
                                                 .smoothing_denominator = 10};
    auto logits = inputs.matrix("logits", s["tokens"], s.whole("vocabulary"));
    const auto grad = inputs.matrix("grad_loss", 1, s["tokens"]);
    const reference::CrossEntropy layer(inputs.number(), std::move(logits), inputs.ids("targets", targets(s)),
                                        setting);
    return {{"loss", layer.loss()}, {"grad_logits", layer.gradient(grad)}};
  }

 private:
  static constexpr std::int64_t kIgnored = -100;
  static std::int64_t vocabulary(const CaseSetting& s) {
    return std::max<std::int64_t>(s.whole("vocabulary") * (10 - s["padding"]) / 10, 1);
  }
  static std::vector<std::int64_t> targets(const CaseSetting& s) {
    std::vector<std::int64_t> ids = drawn_ids(s, "targets", s["tokens"], vocabulary(s));
    const auto ignored = static_cast<std::size_t>(s["ignored"]);
    for (std::size_t t = 0; t < ids.size(); ++t) {
      if (ignored == 0 || t % ignored == 1) ids[t] = kIgnored;
    }
    return ids;
  }
};

}  // namespace

std::unique_ptr<Case> vocab_parallel_embedding_case() { return std::make_unique<EmbeddingCase>(); }
std::unique_ptr<Case> vocab_parallel_cross_entropy_case() { return std::make_unique<CrossEntropyCase>(); }

}  // namespace verify
