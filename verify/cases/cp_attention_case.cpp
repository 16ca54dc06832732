#include "sim/context/context_rows.h"
#include "sim/context/core_attention.h"
#include "sim/tensor/permutation.h"
#include "verify/cases/case_inputs.h"
#include "verify/cases/case_list.h"
#include "verify/cases/cp_calls.h"
#include "verify/cases/cp_plan.h"
#include "verify/reference/context_attention.h"

namespace verify {

namespace {

using sim::CpCommType;

/// Queries, keys or values [B, heads, S, d].
struct HeadTensor {
  const char* name;
  std::int64_t heads;
  std::int64_t channels;
};

class CpAttentionCase : public CaseOf<CpAttentionCase> {
 public:
  std::string name() const override { return "cp_attention"; }
  Ranks ranks() const override { return Ranks::world; }
  sim::ParallelSizes sizes(const CaseSetting& s) const override {
    const CpPlan plan{s};
    sim::ParallelSizes sizes{.world_size = s.group_size, .context_parallel_size = plan.cp()};
    if (plan.kind() == CpCommType::a2a_p2p)
      sizes.hierarchical_context_parallel_sizes = {plan.inner(), plan.cp() / plan.inner()};
    return sizes;
  }
  std::vector<Dimension> dimensions() const override {
    return {{.name = "cp", .least = 1, .most = 8, .at = at_scenario::cp, .is_an_axis = true},
            {.name = "kind", .least = 0, .most = 3, .at = at_scenario::cp_comm_type, .most_needs = "cp"},
            {"inner", 1, 4},
            {"rows", 1, 2},
            {"documents", 1, 3},
            {"padding", 0, 2},
            {"batch", 1, 2},
            {"groups", 1, 2},
            {"queries", 1, 2},
            {"channels", 1, 3},
            {"value_channels", 1, 3},
            {.name = "causal", .least = 0, .most = 1, .at = at_scenario::on},
            {"window", 0, 3}};
  }

  std::vector<CaseOutput> outputs(const CaseSetting& s) const override {
    const CpPlan plan{s};
    std::vector<CaseOutput> outputs;
    for (const char* name : {"context", "grad_queries", "grad_keys", "grad_values"}) {
      const std::vector<CaseOutput> own = plan.outputs_of(name);
      outputs.insert(outputs.end(), own.begin(), own.end());
    }
    return outputs;
  }

  /// In the field all kinds on all numbers of ranks compute the same. In floats those that exchange heads
  /// compute the bits of one rank.
  std::vector<CaseSetting> twins(const CaseSetting& s) const override {
    const CpPlan plan{s};
    CaseSetting first = s;
    first.dimensions["whole_cp"] = s.fixed("whole_cp", plan.cp());
    first.dimensions["whole_exchange"] = s.fixed("whole_exchange", plan.exchange());
    first.dimensions["whole_window"] = plan.window();
    std::vector<CaseSetting> all = {first};
    const auto add = [&](CpCommType kind, int cp) {
      CaseSetting twin = first;
      twin.dimensions["kind"] = static_cast<std::int64_t>(kind);
      twin.dimensions["cp"] = cp;
      const CpPlan of_twin{twin};
      const bool loses_window = s["causal"] == 1 && plan.window() >= 0 && merges(of_twin) > 0;
      if (plan.groups() % of_twin.exchange() == 0 && !loses_window) all.push_back(std::move(twin));
    };
    if (s.dtype != sim::DType::field) {
      if (plan.kind() == CpCommType::a2a) add(CpCommType::a2a, 1);
      return all;
    }
    for (const CpCommType kind :
         {CpCommType::p2p, CpCommType::all_gather, CpCommType::a2a, CpCommType::a2a_p2p})
      add(kind, plan.cp());
    for (const int cp : {1, plan.cp() / 2})
      if (cp > 0 && plan.cp() % cp == 0) add(CpCommType::p2p, cp);
    return all;
  }

  std::vector<NamedNumber> factors(const CaseSetting& s) const override {
    const CpPlan plan{s};
    return {{"cp", plan.cp()}, {"channels", s["channels"]}, {"queries", s["queries"]}};
  }

  std::vector<ExpectedCall> calls(const CaseSetting& s) const override { return expected_of(s, 0).calls; }
  ExpectedRun expected_of(const CaseSetting& s, int rank) const override {
    const CpPlan plan{s};
    const CpCalls attention = calls_of(plan, rank);
    ExpectedRun run;
    attention.forward(run.calls);
    attention.backward(run.calls);
    return run;
  }

  void run(sim::Rank& rank, const CaseSetting& s) const override {
    const CpPlan plan{s};
    const sim::SequenceCut cut = plan.cut();
    const auto attention = sim::make_core_attention(
        rank, {.name = "core_attention", .keys = {.causal = s["causal"] == 1, .window = plan.window()}}, cut,
        plan.kind());
    const auto own = [&](const HeadTensor& whole) {
      const std::int64_t columns = plan.batch() * whole.heads * whole.channels;
      const sim::Tensor all = drawn(rank, s, whole.name, {plan.sequence(), columns});
      const sim::Tensor rows = sim::own_context_rows(all, cut, rank.groups.get("cp").rank());
      return sim::permuted(rows.reshaped({cut.local_length(), plan.batch(), whole.heads, whole.channels}),
                           {1, 2, 0, 3});
    };
    const auto publish = [&](const char* name, const sim::Tensor& heads) {
      const sim::Tensor rows = sim::permuted(heads, {2, 0, 1, 3});
      plan.publish(rank, name, rows.reshaped({cut.local_length(), rows.count() / cut.local_length()}));
    };
    const auto forward =
        attention->forward(own(queries(plan)), own(keys(plan)), own(values(plan)), /*pass=*/0);
    const auto grads = attention->backward(forward.saved, own(grad_context(plan)));
    publish("context", forward.context);
    publish("grad_queries", grads.queries);
    publish("grad_keys", grads.keys);
    publish("grad_values", grads.values);
  }

  /// A NaN or an infinity in a key that a query does not see reaches its output where the key is multiplied
  /// by a probability of 0, and does not where it is skipped; and a rank of a ring may have no finite score
  /// of a query, although other ranks have. With a causal mask or a ring, special values are not judged.
  template <typename Scalar>
  Wholes<Scalar> reference(const Inputs<Scalar>& inputs, const CaseSetting& s) const {
    const CpPlan plan{s};
    std::vector<reference::AttentionDocument> documents;
    std::int64_t begin = 0;
    for (std::int64_t document = 0; document < plan.documents(); ++document) {
      documents.push_back({begin, plan.real_length(document)});
      begin += plan.length(document);
    }
    const auto whole = [&](const HeadTensor& of) {
      return inputs.matrix(of.name, plan.sequence(), plan.batch() * of.heads * of.channels);
    };
    const reference::ContextAttention<Scalar> attention(
        inputs.number(),
        {.sequence = plan.sequence(),
         .batch = plan.batch(),
         .heads = plan.heads(),
         .groups = plan.groups(),
         .channels = s["channels"],
         .value_channels = s["value_channels"],
         .documents = documents,
         .sight = {.causal = s["causal"] == 1, .window = plan.window()},
         .merges = merges(plan)},
        whole(queries(plan)), whole(keys(plan)), whole(values(plan)));
    const auto grads = attention.gradients(whole(grad_context(plan)));
    Wholes<Scalar> wholes;
    plan.add_wholes("context", attention.output(), wholes);
    plan.add_wholes("grad_queries", grads.q, wholes);
    plan.add_wholes("grad_keys", grads.k, wholes);
    plan.add_wholes("grad_values", grads.v, wholes);
    if (s.special != Special::none && (s["causal"] == 1 || merges(plan) > 0))
      leave_unjudged(inputs.number(), wholes);
    return wholes;
  }

 private:
  static HeadTensor queries(const CpPlan& plan) { return {"queries", plan.heads(), plan.s["channels"]}; }
  static HeadTensor keys(const CpPlan& plan) { return {"keys", plan.groups(), plan.s["channels"]}; }
  static HeadTensor values(const CpPlan& plan) { return {"values", plan.groups(), plan.s["value_channels"]}; }
  static HeadTensor grad_context(const CpPlan& plan) {
    return {"grad_context", plan.heads(), plan.s["value_channels"]};
  }

  static int merges(const CpPlan& plan) { return merges_of_ring(plan.kind(), plan.cp(), plan.inner()); }

  static CpCalls calls_of(const CpPlan& plan, int rank) {
    const std::int64_t rows = plan.batch() * plan.sequence() / plan.cp();
    const std::int64_t d = plan.s["channels"], dv = plan.s["value_channels"];
    return {.kind = plan.kind(),
            .cp = plan.cp(),
            .inner = plan.inner(),
            .place = plan.place(rank),
            .queries = rows * plan.heads() * d,
            .keys = rows * plan.groups() * d,
            .values = rows * plan.groups() * dv,
            .context = rows * plan.heads() * dv};
  }
};

}  // namespace

std::unique_ptr<Case> cp_attention_case() { return std::make_unique<CpAttentionCase>(); }

}  // namespace verify
