#pragma once

/// Programs of latent attention with a defect: bodies for the case multi_latent_attention.

#include "verify/cases/case.h"

namespace test {

/// Rotary positions turn the first channels of each query head, in place of the last ones.
void positions_on_the_first_channels(sim::Rank& rank, const verify::CaseSetting& setting);
void flags_of_latent_norms_lost(sim::Rank& rank, const verify::CaseSetting& setting);
void flags_of_down_projections_lost(sim::Rank& rank, const verify::CaseSetting& setting);

}  // namespace test
