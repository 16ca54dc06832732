#pragma once

/// Judges an explanation by the fault that was planted: whether it names the site, the ranks and the kind of
/// mistake. The texts are searched as a reader would: for the name of the site, for the ranks, and for the
/// words of a kind. The words of a wrong group count in the explanation alone, because a refusal describes
/// the call that was made, and not that it goes over the wrong group.

#include <cstdint>
#include <string>

#include "verify/faults/fault.h"

namespace verify {

struct NamedReasons {
  bool site = false;
  bool rank = false;
  bool kind = false;
};

/// Returns what of a fault is named by what was found and by its explanation. A fault on all ranks is named
/// by a text that blames no single rank, or that says of a call or kernel that all ranks have the fault.
NamedReasons named_reasons(const Fault& fault, const std::string& found, const std::string& explanation,
                           int ranks);

/// Returns why a fault may be without effect. `met` is the number of calls that had it.
std::string why_equivalent(const Fault& fault, std::int64_t met);

}  // namespace verify
