#pragma once

/// Says which change at which site makes all tensors of a wrong run right (explained_repairs.h): at one site,
/// on all ranks, the wrong ones or one of each group; or at several sites of one operation.
///
/// Exact   A repair makes all right with other seeds, too. Of several those are said that do so at larger
///         sizes.

#include <string>

#include "verify/explain/changed_sites.h"

namespace verify {

/// Returns a phrase such as "all is right if the result of 'mlp.forward' is multiplied by 2 on all ranks", or
/// "" where there is no repair. All sites have been changed.
std::string text_of_repairs(ChangedSites& changes);

}  // namespace verify
