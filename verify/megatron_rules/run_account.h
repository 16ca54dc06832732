#pragma once

/// What becomes of every argument of a run: used, without effect, not modelled, or unknown. No argument is
/// left out.
///
/// Exact   Arguments are listed by name. An argument that is not modelled and is switched off, or matters
///         only beside another one that is not set, has no effect, and is listed there.
///         Memory is counted where more is not proved: latent attention and norms of queries and keys, for
///         example, have their memory here, while their training is not proved. The other way round, some
///         arguments have no effect on what is proved, but allocate memory that is not counted: CUDA graphs,
///         buffers of overlapped communication.
/// Source  Measured runs of Megatron-LM's functional tests: verify/memory/README.md.

#include <string>
#include <string_view>
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

/// A row of argument_cases.tsv, which says what its words are.
struct ArgumentCase {
  std::string argument, about;
  std::vector<std::string> plain;  // values
  Unproved unproved = Unproved::nothing;
  std::string sentence;
  bool has_plain(const std::string& value) const;
};
/// Returns the row of an argument; null if there is none.
const ArgumentCase* find_argument_case(std::string_view argument, std::string_view about);

RunAccount account_of(const RunValues& values);

/// Returns the argument as a reader would write it: "--fp8-format hybrid".
std::string written(const AccountedArgument& argument);

/// Returns the first argument that leaves this without proof; null where none does.
const AccountedArgument* not_proved(const RunAccount& account, Unproved what);

/// Whether the option of this name says only what a rank keeps.
bool is_option_of_memory(const std::string& name);

/// Whether an argument that is not counted moves memory to the host, so that a rank holds less with it.
bool holds_less(const AccountedArgument& argument);

/// Returns the arguments that change what a rank holds in a way that is not counted, sorted by name.
std::vector<AccountedArgument> uncounted_arguments(const RunValues& values, const RunAccount& account);

}  // namespace verify
