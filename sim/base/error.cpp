#include "sim/base/error.h"

#include <fmt/format.h>
#include <utility>

namespace sim {

Error::Error(Refusal refusal)
    : refusal_(std::move(refusal)),
      what_(fmt::format("{} [{}]: {}; rule: {}; try: {}", refusal_.option, refusal_.code, refusal_.numbers,
                        refusal_.rule, refusal_.hint)) {}

void refuse(Refusal refusal) { throw Error(std::move(refusal)); }

}  // namespace sim
