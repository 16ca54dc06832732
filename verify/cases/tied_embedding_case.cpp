#include "sim/parallel/column_parallel_linear.h"
#include "sim/parallel/vocab_parallel_cross_entropy.h"
#include "sim/parallel/vocab_parallel_embedding.h"
#include "verify/cases/case_inputs.h"
#include "verify/cases/case_list.h"
#include "verify/cases/token_calls.h"
#include "verify/reference/cross_entropy.h"
#include "verify/reference/embedding.h"
#include "verify/reference/linear.h"

namespace verify {

namespace {

using sim::Operation;

/// The scale of the weight. In bf16 the bound of an exponential is useful only if logits are small.
constexpr sim::Ratio kWeightScale = {1, 4};

class TiedEmbeddingCase : public CaseOf<TiedEmbeddingCase> {
 public:
  std::string name() const override { return "tied_embedding"; }
  std::vector<Dimension> dimensions() const override {
    return {{.name = "tokens", .least = 1, .most = 4, .is_a_rank = true},
            {"hidden", 1, 6},
            {.name = "vocabulary", .least = 1, .most = 5, .is_a_rank = true},
            {.name = "sequence_parallel", .least = 0, .most = 1, .at = at_scenario::sequence_parallel}};
  }
  std::vector<CaseOutput> outputs(const CaseSetting&) const override {
    return {{"loss", Placement::replicated}, {"weight_grad", Placement::rows}};
  }
  std::vector<ExpectedCall> calls(const CaseSetting& s) const override {
    const std::int64_t hidden = s.whole("tokens") * s["hidden"];
    const bool sp = s["sequence_parallel"] == 1;
    std::vector<ExpectedCall> expected;
    const auto add = [&](bool is_made, const char* site, Operation operation, std::int64_t elements) {
      if (is_made) expected.push_back({site, operation, elements});
    };
    add(!sp, "vocab_parallel_embedding.forward", Operation::all_reduce, hidden);
    add(sp, "vocab_parallel_embedding.forward", Operation::reduce_scatter, hidden / s.group_size);
    add(sp, "column_parallel_linear.forward", Operation::all_gather, hidden / s.group_size);
    loss_calls(s.whole("tokens"), false, s.group_size, expected);
    add(sp, "column_parallel_linear.backward_input", Operation::all_gather, hidden / s.group_size);
    add(!sp, "column_parallel_linear.backward", Operation::all_reduce, hidden);
    add(sp, "column_parallel_linear.backward", Operation::reduce_scatter, hidden / s.group_size);
    add(sp, "vocab_parallel_embedding.backward", Operation::all_gather, hidden / s.group_size);
    return expected;
  }
  void run(sim::Rank& rank, const CaseSetting& s) const override {
    const std::int64_t vocabulary = s.whole("vocabulary");
    const bool sp = s["sequence_parallel"] == 1;
    sim::VocabParallelEmbedding embedding(rank, {.name = "embedding",
                                                 .dtype = s.dtype,
                                                 .vocabulary = vocabulary,
                                                 .hidden_size = s["hidden"],
                                                 .sequence_parallel = sp,
                                                 .initial = {kWeightScale}});
    sim::ColumnParallelLinear output_layer(rank,
                                           {.name = "output_layer",
                                            .dtype = s.dtype,
                                            .input_size = s["hidden"],
                                            .output_size = vocabulary,
                                            .bias = false,
                                            .sequence_parallel = sp},
                                           &embedding.weight());
    sim::VocabParallelCrossEntropy cross_entropy(rank, {.vocabulary = vocabulary});
    const auto hidden = embedding.forward(tensor_of_ids(rank, ids_of(s, "ids")));
    const auto logits = output_layer.forward(hidden.output);
    const auto loss = cross_entropy.forward(logits.output, tensor_of_ids(rank, ids_of(s, "targets")));
    const sim::Tensor grad = drawn(rank, s, "grad_loss", {s.whole("tokens")});
    const sim::Tensor grad_logits = cross_entropy.backward(loss.saved, sim::cast(grad, loss.loss.dtype()));
    embedding.backward(hidden.saved, output_layer.backward(logits.saved, grad_logits));
    rank.publish("loss", loss.loss);
    rank.publish("weight_grad", embedding.weight().main_grad);
  }
  template <typename Scalar>
  Wholes<Scalar> reference(const Inputs<Scalar>& inputs, const CaseSetting& s) const {
    const auto& number = inputs.number();
    const reference::CrossEntropySetting setting{.vocabulary = s.whole("vocabulary"), .ignored_id = -1};
    const auto table = inputs.parameter("embedding.weight", s.whole("vocabulary"), s["hidden"], kWeightScale);
    const std::vector<std::int64_t> ids = inputs.ids("ids", ids_of(s, "ids"));
    const auto x = reference::embedding(table, ids);
    const auto logits = reference::linear(number, x, table, {});
    const auto grad = inputs.matrix("grad_loss", 1, s.whole("tokens"));
    const reference::CrossEntropy cross_entropy(number, logits, inputs.ids("targets", ids_of(s, "targets")),
                                                setting);
    const auto grad_logits = cross_entropy.gradient(grad);
    const auto of_output = reference::linear_gradients(number, x, table, grad_logits);
    const auto of_embedding = reference::embedding_gradient(number, table, ids, of_output.x);
    return {{"loss", cross_entropy.loss()},
            {"weight_grad",
             reference::matrix_of(number, table.rows(), table.cols(), [&](Eigen::Index i, Eigen::Index j) {
               return of_output.weight(i, j) + of_embedding(i, j);
             })}};
  }

 private:
  static std::vector<std::int64_t> ids_of(const CaseSetting& s, const char* name) {
    return drawn_ids(s, name, s.whole("tokens"), s.whole("vocabulary"));
  }
};

}  // namespace

std::unique_ptr<Case> tied_embedding_case() { return std::make_unique<TiedEmbeddingCase>(); }

}  // namespace verify
