#include "verify/cases/case_list.h"

#include "verify/cases/case.h"

namespace verify {

namespace {

CaseList make_cases() {
  CaseList cases = mapping_cases();
  cases.push_back(all_to_all_uneven_case());
  cases.push_back(column_parallel_linear_case());
  cases.push_back(row_parallel_linear_case());
  cases.push_back(vocab_parallel_embedding_case());
  cases.push_back(vocab_parallel_cross_entropy_case());
  cases.push_back(tied_embedding_case());
  cases.push_back(parallel_norm_case());
  cases.push_back(parallel_dropout_case());
  cases.push_back(mlp_case());
  cases.push_back(self_attention_case());
  cases.push_back(multi_latent_attention_case());
  cases.push_back(cp_attention_case());
  cases.push_back(transformer_layer_case());
  cases.push_back(cp_batch_case());
  cases.push_back(moe_router_case());
  cases.push_back(moe_aux_loss_case());
  cases.push_back(token_dispatcher_case());
  cases.push_back(moe_layer_case());
  cases.push_back(distributed_optimizer_case());
  cases.push_back(gpt_training_case());
  cases.push_back(moe_training_case());
  cases.push_back(cp_training_case());
  return cases;
}

}  // namespace

const CaseList& all_cases() {
  static const CaseList cases = make_cases();
  return cases;
}

}  // namespace verify
