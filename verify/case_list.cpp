#include <iterator>

#include "verify/case.h"
#include "verify/cases/attention_case.h"
#include "verify/cases/data_parallel_case.h"
#include "verify/cases/dropout_case.h"
#include "verify/cases/gpt_case.h"
#include "verify/cases/linear_case.h"
#include "verify/cases/mapping_case.h"
#include "verify/cases/mlp_case.h"
#include "verify/cases/norm_case.h"
#include "verify/cases/tied_embedding_case.h"
#include "verify/cases/transformer_case.h"
#include "verify/cases/vocabulary_case.h"

namespace verify {

namespace {

CaseList make_cases() {
  CaseList cases = mapping_cases();
  cases.push_back(column_parallel_linear_case());
  cases.push_back(row_parallel_linear_case());
  cases.push_back(vocab_parallel_embedding_case());
  cases.push_back(vocab_parallel_cross_entropy_case());
  cases.push_back(tied_embedding_case());
  cases.push_back(parallel_norm_case());
  cases.push_back(parallel_dropout_case());
  cases.push_back(mlp_case());
  cases.push_back(self_attention_case());
  cases.push_back(transformer_layer_case());
  cases.push_back(distributed_optimizer_case());
  cases.push_back(gpt_training_case());
  return cases;
}

}  // namespace

const CaseList& all_cases() {
  static const CaseList cases = make_cases();
  return cases;
}

}  // namespace verify
