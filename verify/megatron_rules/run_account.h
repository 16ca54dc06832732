#pragma once

/// What becomes of every argument of a run: used, without effect, not modelled, or unknown. No argument is
/// left out.
///
/// Exact   Arguments are listed by name. An argument that is not modelled and is switched off, or matters
///         only beside another one that is not set, has no effect, and is listed there.

#include <string>
#include <vector>

#include "verify/megatron_rules/run_values.h"
#include "verify/run_arguments/argument_table.h"

namespace verify {

struct AccountedArgument {
  std::string name;   // without dashes
  std::string value;  // "" for a flag
  int line = 0;
  std::string sentence;
  Unproved unproved = Unproved::nothing;
};

struct UnknownArgument {
  std::string name;
  int line = 0;
  std::string nearest;  // the nearest known name; "" where none is near
};

struct RunAccount {
  std::vector<AccountedArgument> used;
  std::vector<AccountedArgument> without_effect;
  std::vector<AccountedArgument> not_modelled;
  std::vector<UnknownArgument> unknown;
};

RunAccount account_of(const RunValues& values);

/// Returns the argument as a reader would write it: "--fp8-format hybrid".
std::string written(const AccountedArgument& argument);

/// Returns the first argument that leaves this without proof; null where none does.
const AccountedArgument* not_proved(const RunAccount& account, Unproved what);

}  // namespace verify
