#pragma once

/// The changes of a run's options that may make it fit, by their kinds.
///
/// Calls   Kinds that cost little time come first: sequence parallelism, no mask of the data loader, ZeRO-1,
///         a kernel of attention that keeps no scores, the precision-aware optimizer, no fused loss, a
///         smaller microbatch, further recomputed modules, the first layers of each stage in eighths of them,
///         all layers, no virtual stages, and two to sixteen times as many pipeline, context, tensor and
///         expert ranks; at last bf16 for a run in fp32, and moments in bf16, with which a training has other
///         numbers. Context ranks may become tensor ranks. Where pipeline ranks do not divide the layers, the
///         last stage has fewer. Changes that the run has already are left out, and tensor-parallel ranks on
///         several nodes. Whether the others are a run that Megatron takes is not asked here.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "verify/requests/scenario.h"

namespace verify {

/// A change of an option: the value that it gets, or that it is left out.
struct Change {
  const char* option;
  std::optional<std::string> value;
};
using Changes = std::vector<Change>;
/// Changes of one kind, of which each goes further than the one before it.
using Steps = std::vector<Changes>;

struct Kind {
  Steps steps;
  bool has_further_kind = false;  // a later kind saves more, so this one is suggested only if it is enough
  bool takes_ranks = false;       // uses up ranks that other kinds would need
};

/// Returns the kinds of changes that a run does not have already.
std::vector<Kind> kinds_of_changes(const Scenario& scenario);

/// Whether two changes give one option different values.
bool share_an_option(const Changes& a, const Changes& b);

/// Our option for a run without --use-distributed-optimizer.
inline constexpr const char* kNoDistributed = "no-distributed-optimizer";

}  // namespace verify
