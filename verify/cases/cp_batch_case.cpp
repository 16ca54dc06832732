#include "sim/context/context_rows.h"
#include "verify/cases/case_list.h"
#include "verify/cases/context_plan.h"
#include "verify/reference/context.h"

namespace verify {

namespace {

using Numbers = ContextPlan::Numbers;
using sim::Tensor;

/// The output is the rows of the input that a rank has. Its other tensors are cut by the same map, and the
/// gradient of the input is gathered.
class CpBatchCase : public CaseOf<CpBatchCase> {
 public:
  std::string name() const override { return "cp_batch"; }
  Ranks ranks() const override { return Ranks::world; }
  sim::ParallelSizes sizes(const CaseSetting& s) const override {
    return {.world_size = s.group_size, .context_parallel_size = s.group_size};
  }
  std::vector<Dimension> dimensions() const override {
    return {{"batch", 1, 3},        {"chunk", 1, 3},  {"documents", 0, 3},    {"hidden", 1, 3},
            {"per_sequence", 0, 1}, {"padded", 0, 1}, {"packed_table", 0, 1}, {"offset", 0, 3}};
  }
  std::vector<NamedNumber> factors(const CaseSetting& s) const override {
    return {{"cp", s.group_size}, {"batch", s["batch"]}, {"chunk", s["chunk"]}, {"hidden", s["hidden"]}};
  }
  std::vector<CaseOutput> outputs(const CaseSetting&) const override {
    std::vector<CaseOutput> outputs = {{"input"}};
    for (const char* name : {"output", "labels", "loss_mask", "positions", "rotary"})
      outputs.push_back({name, Placement::rows});
    outputs.push_back({"gathered"});
    outputs.push_back({"grad_output", Placement::rows});
    outputs.push_back({"grad_input"});
    return outputs;
  }
  std::vector<AdjointIdentity> adjoint(const CaseSetting&) const override {
    return {{{"input", "grad_input"}}};
  }
  std::vector<ExpectedCall> calls(const CaseSetting& s) const override {
    const std::int64_t elements = ContextPlan{s}.tokens() / s.group_size * s["hidden"];
    std::vector<ExpectedCall> calls;
    for (const char* site : {"cp_batch.gather", "cp_batch.gather_grad"})
      calls.push_back(
          {.site = site, .operation = sim::Operation::all_gather, .elements = elements, .group = "cp"});
    return calls;
  }
  void run(sim::Rank& rank, const CaseSetting& s) const override { run_context_batch(rank, s); }

  template <typename Scalar>
  Wholes<Scalar> reference(const Inputs<Scalar>& inputs, const CaseSetting& s) const {
    const ContextPlan plan{s};
    const auto& number = inputs.number();
    const std::vector<Token> tokens = tokens_of(plan);
    const Numbers order = reference::tokens_by_rank(pieces_of(plan), plan.cp());
    const auto input = inputs.matrix("input", plan.tokens(), s["hidden"]);
    const auto labels = inputs.matrix("labels", plan.tokens(), 1);
    const auto mask = inputs.matrix("loss_mask", plan.tokens(), 1);
    const auto positions = inputs.matrix("position_table", plan.length(), s["hidden"]);
    const auto rotary = inputs.matrix("rotary_table", plan.rotary_rows(), 1);
    // The rows of all ranks: row i holds what is in row_of(i) of the whole, and is token_of(i).
    const auto token_of = [&](Eigen::Index i) {
      return tokens[static_cast<std::size_t>(order[static_cast<std::size_t>(i / plan.batch())])];
    };
    const auto row_of = [&](Eigen::Index i) {
      return order[static_cast<std::size_t>(i / plan.batch())] * plan.batch() + i % plan.batch();
    };
    const auto rows = [&](std::int64_t columns, const auto& element) {
      return reference::matrix_of(number, plan.tokens(), columns, element);
    };
    const auto one_a_token = [&](std::int64_t columns, const auto& element) {
      return reference::matrix_of(number, plan.length(), columns, [&](Eigen::Index i, Eigen::Index j) {
        return element(tokens[static_cast<std::size_t>(order[static_cast<std::size_t>(i)])], j);
      });
    };
    Wholes<Scalar> wholes = {{"input", input}, {"gathered", input}};
    wholes["output"] = rows(s["hidden"], [&](Eigen::Index i, Eigen::Index j) { return input(row_of(i), j); });
    wholes["labels"] = rows(1, [&](Eigen::Index i, Eigen::Index) { return labels(row_of(i), 0); });
    wholes["loss_mask"] = rows(1, [&](Eigen::Index i, Eigen::Index) {
      return token_of(i).is_real ? mask(row_of(i), 0) : number.of(0, 1);
    });
    wholes["positions"] = one_a_token(
        s["hidden"], [&](const Token& token, Eigen::Index j) { return positions(token.position, j); });
    wholes["rotary"] =
        one_a_token(1, [&](const Token& token, Eigen::Index) { return rotary(token.rotary_position, 0); });
    const auto grad = inputs.matrix("grad_output", plan.tokens(), s["hidden"]);
    auto grad_input = grad;
    for (Eigen::Index i = 0; i < grad.rows(); ++i) grad_input.row(row_of(i)) = grad.row(i);
    wholes["grad_output"] = grad;
    wholes["grad_input"] = grad_input;
    return wholes;
  }

 private:
  /// What is known of a token of a sequence, or of all packed rows.
  struct Token {
    std::int64_t position = 0;  // in its document
    bool is_real = true;
    std::int64_t rotary_position = 0;
  };
  static std::vector<Token> tokens_of(const ContextPlan& plan) {
    std::vector<Token> tokens;
    const bool restarts = !plan.is_cut_as_sequence() && !plan.has_packed_table();
    const auto append = [&](std::int64_t length, std::int64_t real_length) {
      for (std::int64_t position = 0; position < length; ++position)
        tokens.push_back(
            {position, position < real_length, restarts ? position : std::ssize(tokens) + plan.offset()});
    };
    if (!plan.is_packed()) append(plan.length(), plan.length());
    for (std::int64_t row = 0; plan.is_packed() && row < plan.s["batch"]; ++row) {
      const Numbers lengths = plan.lengths(row), real = plan.real_lengths(row);
      for (std::size_t d = 0; d < lengths.size(); ++d) append(lengths[d], real[d]);
    }
    return tokens;
  }
  static Numbers pieces_of(const ContextPlan& plan) {
    if (plan.is_cut_as_sequence()) return {plan.length()};
    Numbers pieces;
    for (std::int64_t row = 0; row < plan.s["batch"]; ++row)
      for (const std::int64_t length : plan.lengths(row)) pieces.push_back(length);
    return pieces;
  }
};

/// The rows of the whole that have a loss, and -1 for those that are padding.
Numbers rows_with_loss(const ContextPlan& plan, const sim::SequenceCut& cut) {
  Numbers rows;
  for (const sim::Document& document : cut.documents())
    for (std::int64_t place = 0; place < document.length * plan.batch(); ++place) {
      const bool is_real = place < document.real_length * plan.batch();
      rows.push_back(is_real ? document.begin * plan.batch() + place : -1);
    }
  return rows;
}

}  // namespace

void run_context_batch(sim::Rank& rank, const CaseSetting& s, const ContextMistake& mistake) {
  const ContextPlan plan{s};
  const sim::SequenceCut cut = plan.cut();
  sim::Communicator& cp = rank.groups.get("cp");
  const auto with_mistake = [&](const std::string& tensor, Numbers numbers) {
    if (mistake) mistake(plan, cp.rank(), tensor, numbers);
    return numbers;
  };
  const auto own = [&](const std::string& tensor, const Tensor& whole) {
    return sim::chosen_rows(whole, with_mistake(tensor, cut.rows_of(cp.rank())), plan.batch());
  };
  const auto whole = [&](const char* name, std::int64_t rows, std::int64_t columns) {
    return drawn(rank, s, name, {rows, columns});
  };
  const auto of_table = [&](const char* name, const Tensor& table, Numbers places) {
    rank.publish(name, sim::chosen_rows(table, with_mistake(name, std::move(places))));
  };
  const Tensor input = whole("input", plan.tokens(), s["hidden"]);
  const Tensor output = own("output", input);
  rank.publish("input", input);
  rank.publish("output", output);
  rank.publish("labels", own("labels", whole("labels", plan.tokens(), 1)));
  rank.publish("loss_mask", own("loss_mask", sim::chosen_rows(whole("loss_mask", plan.tokens(), 1),
                                                              rows_with_loss(plan, cut))));
  of_table("positions", whole("position_table", plan.length(), s["hidden"]), cut.positions_of(cp.rank()));
  of_table("rotary", whole("rotary_table", plan.rotary_rows(), 1),
           plan.is_cut_as_sequence() ? sim::rotary_positions(cut, cp.rank(), plan.offset())
                                     : sim::rotary_positions(plan.rotary(), cp.rank()));
  rank.publish("gathered", sim::gathered_context_rows(output, cut, cp, "cp_batch.gather", plan.batch()));
  const std::int64_t rows = plan.tokens() / plan.cp();
  const Tensor grad =
      whole("grad_output", plan.tokens(), s["hidden"]).rows(cp.rank() * rows, (cp.rank() + 1) * rows);
  rank.publish("grad_output", grad);
  rank.publish("grad_input", sim::gathered_context_rows(grad, cut, cp, "cp_batch.gather_grad", plan.batch()));
}

std::unique_ptr<Case> cp_batch_case() { return std::make_unique<CpBatchCase>(); }

}  // namespace verify
