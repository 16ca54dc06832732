#include "tests/defects/wrong_latent_attention.h"

#include <string_view>

#include "sim/tensor/ops.h"
#include "verify/cases/latent_attention_case.h"

namespace test {

namespace {

using sim::MultiLatentAttention;
using sim::Tensor;

sim::Parameter* query_weight(MultiLatentAttention& layer) {
  for (sim::Parameter* parameter : layer.parameters()) {
    if (parameter->name.ends_with(".linear_q_up_proj.weight") ||
        parameter->name.ends_with(".linear_q_proj.weight"))
      return parameter;
  }
  return nullptr;
}

/// Moves the first `count` of every `width` rows behind the others.
void move_rows_back(const Tensor& rows, std::int64_t width, std::int64_t count) {
  const Tensor before = sim::scale(rows, {1, 1});
  for (std::int64_t first = 0; first < rows.shape()[0]; first += width) {
    Tensor front = rows.rows(first, first + width - count);
    Tensor back = rows.rows(first + width - count, first + width);
    sim::copy(before.rows(first + count, first + width), front);
    sim::copy(before.rows(first, first + count), back);
  }
}

void lose_flags(sim::Rank& rank, const verify::CaseSetting& s, std::string_view of) {
  verify::run_latent_attention(rank, s, {.made = [of](MultiLatentAttention& layer) {
                                 for (sim::Parameter* parameter : layer.parameters()) {
                                   if (parameter->name.find(of) != std::string::npos)
                                     parameter->attributes.sequence_parallel = false;
                                 }
                               }});
}

}  // namespace

/// The rows of a weight that give the first channels are taken for those of the last ones.
void positions_on_the_first_channels(sim::Rank& rank, const verify::CaseSetting& s) {
  const std::int64_t content = s["content"], positions = 2 * s["half_positions"];
  verify::run_latent_attention(
      rank, s,
      {.made =
           [=](MultiLatentAttention& layer) {
             move_rows_back(query_weight(layer)->value, content + positions, positions);
           },
       .after =
           [=](MultiLatentAttention& layer) {
             move_rows_back(query_weight(layer)->main_grad, content + positions, content);
           }});
}

void flags_of_latent_norms_lost(sim::Rank& rank, const verify::CaseSetting& s) {
  lose_flags(rank, s, "_layernorm.");
}

void flags_of_down_projections_lost(sim::Rank& rank, const verify::CaseSetting& s) {
  lose_flags(rank, s, "_down_proj.");
}

}  // namespace test
