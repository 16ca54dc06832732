#include "sim/parallel/parallel_dropout.h"
#include "sim/parallel/region.h"
#include "verify/cases/case_inputs.h"
#include "verify/cases/case_list.h"
#include "verify/cases/dropout_masks.h"
#include "verify/reference/attention.h"

namespace verify {

namespace {

class DropoutCase : public CaseOf<DropoutCase> {
 public:
  std::string name() const override { return "parallel_dropout"; }
  std::vector<Dimension> dimensions() const override {
    return {{.name = "tokens", .least = 1, .most = 6, .is_a_rank = true},
            {"hidden", 1, 9},
            {"dropout", 0, 3},
            {"pass", 0, 2},
            {"sharded", 0, 1}};
  }
  std::vector<CaseOutput> outputs(const CaseSetting& s) const override {
    const Placement tokens = s["sharded"] == 1 ? Placement::rows : Placement::replicated;
    return {{"input", tokens}, {"output", tokens}, {"grad_output", tokens}, {"grad_input", tokens}};
  }
  std::vector<AdjointIdentity> adjoint(const CaseSetting&) const override {
    return {{{"input", "grad_input"}}};
  }
  std::vector<ExpectedCall> calls(const CaseSetting&) const override { return {}; }
  void run(sim::Rank& rank, const CaseSetting& s) const override {
    const bool is_sharded = s["sharded"] == 1;
    const sim::ParallelDropout layer(rank,
                                     {.name = "dropout",
                                      .probability = dropout_of(s),
                                      .region = is_sharded ? sim::Region::sharded : sim::Region::replicated});
    const auto own = [&](const char* name) {
      return is_sharded ? drawn_own_rows(rank, s, name, s.whole("tokens"), s["hidden"])
                        : drawn(rank, s, name, {s.whole("tokens"), s["hidden"]});
    };
    const sim::Tensor input = own("input"), grad = own("grad_output");
    const auto pass = static_cast<std::uint64_t>(s["pass"]);
    const sim::Tensor output = layer.forward(input, pass), grad_input = layer.backward(grad, pass);
    rank.publish("input", input);
    rank.publish("output", output);
    rank.publish("grad_output", grad);
    rank.publish("grad_input", grad_input);
  }
  template <typename Scalar>
  Wholes<Scalar> reference(const Inputs<Scalar>& inputs, const CaseSetting& s) const {
    const std::int64_t tokens = s.whole("tokens"), hidden = s["hidden"];
    const auto input = inputs.matrix("input", tokens, hidden);
    const auto grad = inputs.matrix("grad_output", tokens, hidden);
    const auto mask = mask_of_rows(inputs, s, "dropout", tokens, hidden, s["sharded"] == 1);
    return {{"input", input},
            {"output", reference::dropped(inputs.number(), input, mask)},
            {"grad_output", grad},
            {"grad_input", reference::dropped(inputs.number(), grad, mask)}};
  }
};

}  // namespace

std::unique_ptr<Case> parallel_dropout_case() { return std::make_unique<DropoutCase>(); }

}  // namespace verify
