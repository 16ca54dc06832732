#pragma once

/// What check --sites writes: the sites at which --plant can plant a fault in the chosen cases. Beside the
/// site of a call stand the operations that are called there.

#include <span>

#include "verify/faults/fault.h"
#include "verify/output/output.h"

namespace verify {

/// Writes a table of the calls and published tensors in `sites`, and of all kernels; or one JSON document.
void write_sites(std::span<const SiteOperation> sites, bool as_json, const Output& output);

}  // namespace verify
