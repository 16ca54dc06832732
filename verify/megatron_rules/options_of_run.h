#pragma once

/// The options of this program that say what the arguments of a run say, with what Megatron takes for
/// arguments that are not given.
///
/// Calls   `values` are the arguments, `account` which of them are used; the ranks are those of the launcher.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "verify/megatron_rules/run_account.h"
#include "verify/megatron_rules/run_values.h"
#include "verify/vocabulary/settings.h"

namespace verify {

struct OptionsOfRun {
  Settings settings;
  std::vector<std::string> notes;  // sentences about what was made of the arguments
};

OptionsOfRun options_of_run(const RunValues& values, const RunAccount& account,
                            std::optional<std::int64_t> world, std::optional<std::int64_t> gpus_per_node);

}  // namespace verify
