#pragma once

/// One rank's part of a trial of multi_latent_attention. The case uses it, and so do the planted programs of
/// latent attention with a defect.

#include <functional>

#include "sim/model/multi_latent_attention.h"
#include "verify/cases/case.h"

namespace verify {

/// Where a program differs from the right one. A step that is null is the right one.
struct LatentHooks {
  std::function<void(sim::MultiLatentAttention&)> made;   // before the layer runs
  std::function<void(sim::MultiLatentAttention&)> after;  // before its gradients are published
};

void run_latent_attention(sim::Rank& rank, const CaseSetting& setting, const LatentHooks& hooks = {});

}  // namespace verify
