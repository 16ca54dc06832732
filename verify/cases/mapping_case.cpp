#include <fmt/format.h>
#include <utility>

#include "sim/parallel/mappings.h"
#include "verify/cases/case_inputs.h"
#include "verify/cases/case_list.h"

namespace verify {

namespace {

using sim::Operation;
using sim::Tensor;

/// The count of a collective: the whole tensor, 1/tp of it, or 1/tp^2 of it.
enum class Size { none, whole, part, part_of_part };

struct Operator {
  const char* name;
  Tensor (*forward)(const Tensor&, sim::Communicator&, sim::Site);
  Tensor (*backward)(const Tensor&, sim::Communicator&, sim::Site);
  Placement input, output, grad_output, grad_input;
  Operation forward_call;
  Size forward_size;
  Operation backward_call;
  Size backward_size;
};

Operator operator_of(const sim::Mapping& mapping, const char* name, Placement input, Placement output,
                     Placement grad_output, Placement grad_input, Operation forward_call, Size forward_size,
                     Operation backward_call, Size backward_size) {
  return {name,       mapping.forward, mapping.backward, input,         output,       grad_output,
          grad_input, forward_call,    forward_size,     backward_call, backward_size};
}

constexpr Placement kAll = Placement::replicated, kRows = Placement::rows, kColumns = Placement::columns,
                    kPartial = Placement::partial;
constexpr Operation kNone = Operation::barrier;  // placeholder for Size::none, with which no call is made

std::vector<Operator> operators() {
  using enum Operation;
  return {
      operator_of(sim::kCopyToTensorModelParallelRegion, "copy_to_tensor_model_parallel_region", kAll, kAll,
                  kPartial, kAll, kNone, Size::none, all_reduce, Size::whole),
      operator_of(sim::kReduceFromTensorModelParallelRegion, "reduce_from_tensor_model_parallel_region",
                  kPartial, kAll, kAll, kAll, all_reduce, Size::whole, kNone, Size::none),
      operator_of(sim::kScatterToTensorModelParallelRegion, "scatter_to_tensor_model_parallel_region", kAll,
                  kColumns, kColumns, kAll, kNone, Size::none, all_gather, Size::part),
      operator_of(sim::kGatherFromTensorModelParallelRegion, "gather_from_tensor_model_parallel_region",
                  kColumns, kAll, kAll, kColumns, all_gather, Size::part, kNone, Size::none),
      operator_of(sim::kScatterToSequenceParallelRegion, "scatter_to_sequence_parallel_region", kAll, kRows,
                  kRows, kAll, kNone, Size::none, all_gather, Size::part),
      operator_of(sim::kGatherFromSequenceParallelRegion, "gather_from_sequence_parallel_region", kRows, kAll,
                  kPartial, kRows, all_gather, Size::part, reduce_scatter, Size::part),
      operator_of(sim::kReduceScatterToSequenceParallelRegion, "reduce_scatter_to_sequence_parallel_region",
                  kPartial, kRows, kRows, kAll, reduce_scatter, Size::part, all_gather, Size::part),
      operator_of(sim::kAllGatherLastDim, "all_gather_last_dim_from_tensor_parallel_region", kColumns, kAll,
                  kPartial, kColumns, all_gather, Size::part, reduce_scatter, Size::part),
      operator_of(sim::kReduceScatterLastDim, "reduce_scatter_last_dim_to_tensor_parallel_region", kPartial,
                  kColumns, kColumns, kAll, reduce_scatter, Size::part, all_gather, Size::part),
      operator_of(sim::kAllToAllSequenceToHidden, "all_to_all_sp2hp", kRows, kColumns, kColumns, kRows,
                  all_to_all, Size::part_of_part, all_to_all, Size::part_of_part),
      operator_of(sim::kAllToAllHiddenToSequence, "all_to_all_hp2sp", kColumns, kRows, kRows, kColumns,
                  all_to_all, Size::part_of_part, all_to_all, Size::part_of_part),
  };
}

/// Returns this rank's part of a whole tensor; for a partial sum, this rank's term of it.
Tensor part_of(sim::Rank& rank, const CaseSetting& setting, const std::string& name, Placement placement) {
  const std::int64_t tokens = setting.whole("tokens"), hidden = setting.whole("hidden");
  if (placement == Placement::partial) {
    const int r = rank.groups.get("tp").rank();
    return drawn(rank, setting, fmt::format("{}.{}", name, r), {tokens, hidden});
  }
  if (placement == Placement::rows) return drawn_own_rows(rank, setting, name, tokens, hidden);
  if (placement == Placement::columns) return drawn_own_columns(rank, setting, name, tokens, hidden);
  return drawn(rank, setting, name, {tokens, hidden});
}

class MappingCase : public CaseOf<MappingCase> {
 public:
  explicit MappingCase(Operator op) : op_(op) {}

  std::string name() const override { return op_.name; }
  std::vector<Dimension> dimensions() const override {
    return {{.name = "tokens", .least = 1, .most = 4, .is_a_rank = true},
            {.name = "hidden", .least = 1, .most = 5, .is_a_rank = true}};
  }
  std::vector<CaseOutput> outputs(const CaseSetting&) const override {
    return {{"input", op_.input},
            {"output", op_.output},
            {"grad_output", op_.grad_output},
            {"grad_input", op_.grad_input}};
  }
  std::vector<AdjointIdentity> adjoint(const CaseSetting&) const override {
    return {{{"input", "grad_input"}}};
  }
  std::vector<ExpectedCall> calls(const CaseSetting& setting) const override {
    std::vector<ExpectedCall> expected;
    add(expected, "mapping.forward", op_.forward_call, op_.forward_size, setting);
    add(expected, "mapping.backward", op_.backward_call, op_.backward_size, setting);
    return expected;
  }
  void run(sim::Rank& rank, const CaseSetting& setting) const override {
    sim::Communicator& tp = rank.groups.get("tp");
    const Tensor input = part_of(rank, setting, "input", op_.input);
    const Tensor grad_output = part_of(rank, setting, "grad_output", op_.grad_output);
    const Tensor output = op_.forward(input, tp, "mapping.forward");
    const Tensor grad_input = op_.backward(grad_output, tp, "mapping.backward");
    rank.publish("input", input);  // after the calls, which must not have changed it
    rank.publish("output", output);
    rank.publish("grad_output", grad_output);
    rank.publish("grad_input", grad_input);
  }

  template <typename Scalar>
  Wholes<Scalar> reference(const Inputs<Scalar>& inputs, const CaseSetting& setting) const {
    const auto input = whole(inputs, setting, "input", op_.input);
    const auto grad_output = whole(inputs, setting, "grad_output", op_.grad_output);
    return {{"input", input}, {"output", input}, {"grad_output", grad_output}, {"grad_input", grad_output}};
  }

 private:
  static void add(std::vector<ExpectedCall>& expected, const char* site, Operation operation, Size size,
                  const CaseSetting& setting) {
    const std::int64_t elements = setting.whole("tokens") * setting.whole("hidden");
    if (size == Size::none) return;
    const std::int64_t parts =
        size == Size::whole
            ? 1
            : (size == Size::part ? setting.group_size : setting.group_size * setting.group_size);
    expected.push_back({site, operation, elements / parts});
  }

  template <typename Scalar>
  static reference::Matrix<Scalar> whole(const Inputs<Scalar>& inputs, const CaseSetting& setting,
                                         const std::string& name, Placement placement) {
    const std::int64_t tokens = setting.whole("tokens"), hidden = setting.whole("hidden");
    if (placement != Placement::partial) return inputs.matrix(name, tokens, hidden);
    std::vector<reference::Matrix<Scalar>> terms;
    for (int r = 0; r < setting.group_size; ++r)
      terms.push_back(inputs.matrix(fmt::format("{}.{}", name, r), tokens, hidden));
    return reference::matrix_of(inputs.number(), tokens, hidden, [&](Eigen::Index i, Eigen::Index j) {
      reference::Sum<Scalar> sum;
      for (const auto& term : terms) sum.add(term(i, j));
      return sum.value_in_parts();
    });
  }

  Operator op_;
};

}  // namespace

std::vector<std::unique_ptr<Case>> mapping_cases() {
  std::vector<std::unique_ptr<Case>> cases;
  for (const Operator& op : operators()) cases.push_back(std::make_unique<MappingCase>(op));
  return cases;
}

}  // namespace verify
