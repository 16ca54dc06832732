#include <algorithm>
#include <numeric>

#include "verify/cases/case_list.h"
#include "verify/cases/token_exchange.h"

namespace verify {

namespace {

using sim::Tensor;

class AllToAllUnevenCase : public CaseOf<AllToAllUnevenCase> {
 public:
  std::string name() const override { return "all_to_all_uneven"; }
  std::vector<Dimension> dimensions() const override { return {{"rows", 1, 4}, {"hidden", 1, 5}}; }
  /// Ranks have different numbers of rows, so that each publishes the rows of all, with zeros for those of
  /// others.
  std::vector<CaseOutput> outputs(const CaseSetting&) const override {
    std::vector<CaseOutput> outputs;
    for (const char* name : {"input", "output", "grad_output", "grad_input"})
      outputs.push_back({name, Placement::partial});
    return outputs;
  }
  std::vector<AdjointIdentity> adjoint(const CaseSetting&) const override {
    return {{{"input", "grad_input"}}};
  }
  std::vector<ExpectedCall> calls(const CaseSetting& s) const override { return expected_of(s, 0).calls; }
  ExpectedRun expected_of(const CaseSetting& s, int rank) const override {
    std::vector<ExpectedCall> calls;
    for (const bool is_forward : {true, false}) {
      std::vector<std::int64_t> elements_to;
      for (int other = 0; other < s.group_size; ++other) {
        const int own = rank % s.group_size;
        const std::int64_t rows = is_forward ? rows_between(s, own, other) : rows_between(s, other, own);
        elements_to.push_back(rows * s["hidden"]);
      }
      calls.push_back({.site = is_forward ? "token_exchange.forward" : "token_exchange.backward",
                       .operation = sim::Operation::all_to_all_uneven,
                       .elements = std::accumulate(elements_to.begin(), elements_to.end(), std::int64_t{0}),
                       .elements_to = elements_to});
    }
    return {.calls = calls};
  }
  void run(sim::Rank& rank, const CaseSetting& s) const override {
    sim::Communicator& tp = rank.groups.get("tp");
    run_token_exchange(rank, s,
                       [&](const Tensor& rows, const std::vector<std::int64_t>& send_rows,
                           const std::vector<std::int64_t>& receive_rows, sim::Site site) {
                         if (tp.size() == 1) return rows;
                         const std::int64_t received =
                             std::accumulate(receive_rows.begin(), receive_rows.end(), std::int64_t{0});
                         const Tensor output = rank.device.empty(s.dtype, {received, s["hidden"]});
                         tp.all_to_all_uneven(rows, send_rows, output, receive_rows, site);
                         return output;
                       });
  }

  /// States the exchange as a stable sort of all rows by the rank that receives them.
  template <typename Scalar>
  Wholes<Scalar> reference(const Inputs<Scalar>& inputs, const CaseSetting& s) const {
    std::vector<int> receiver;  // by row of the input
    for (int from = 0; from < s.group_size; ++from) {
      for (int to = 0; to < s.group_size; ++to)
        receiver.insert(receiver.end(), static_cast<std::size_t>(rows_between(s, from, to)), to);
    }
    std::vector<std::size_t> order(receiver.size());  // by row of the output: the row of the input
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) { return receiver[a] < receiver[b]; });
    const auto input = inputs.matrix("input", std::ssize(order), s["hidden"]);
    const auto grad_output = inputs.matrix("grad_output", std::ssize(order), s["hidden"]);
    auto output = input, grad_input = grad_output;
    for (std::size_t i = 0; i < order.size(); ++i) {
      const auto row = static_cast<Eigen::Index>(i), of_input = static_cast<Eigen::Index>(order[i]);
      output.row(row) = input.row(of_input);
      grad_input.row(of_input) = grad_output.row(row);
    }
    return {{"input", input}, {"output", output}, {"grad_output", grad_output}, {"grad_input", grad_input}};
  }
};

}  // namespace

std::unique_ptr<Case> all_to_all_uneven_case() { return std::make_unique<AllToAllUnevenCase>(); }

}  // namespace verify
