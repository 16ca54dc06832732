#pragma once

/// The calls of a training by Megatron, held against those that its arguments stand for in closed form
/// (verify/full_size/step_totals.h).
///
/// Shapes  a row is one operation on one kind of groups, in elements of all ranks and all steps. How many
///         calls carry them is the program's choice, which puts parameters into buckets.
/// Exact   the closed form has the calls of the model, its gradients and parameters. A training loop makes
///         others besides, for its timers and logs. So the elements of a row must be all those of some of the
///         program's functions; no name of a function is known. `beside` are the functions that no row has.
///         How a batch reaches the ranks, which losses are shown, and how rows of tokens are divided among
///         experts is not in the rows. What another function carries too much is not seen.
/// Errors  none: where the closed form cannot say what the arguments call, `unknown` is the reason.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/comm/ledger.h"
#include "sim/layout/layout.h"
#include "sim/world/simulate.h"
#include "verify/full_size/step_totals.h"
#include "verify/output/json.h"

namespace verify {

struct CallsRow {
  std::string kind;
  sim::Operation operation = sim::Operation::barrier;
  sim::DType dtype = sim::DType::f32;
  std::int64_t expected = 0;         // elements
  std::vector<sim::LedgerRow> made;  // by the functions that carry these; all of this kind if none do
  bool is_equal = false;
};

struct JudgedCalls {
  std::optional<sim::Layout> layout;  // that of the arguments
  std::string unknown;                // why the calls are not known
  std::int64_t steps = 0;
  std::vector<CallsRow> rows;
  std::int64_t beside = 0;           // functions whose calls no row has
  std::int64_t elements_beside = 0;  // that these carry
  bool is_equal() const;
};

/// Judges the calls of a program by what it has told of its arguments (sim::GuestRecord::told); nothing if it
/// has told none.
std::optional<JudgedCalls> judged_calls(const std::string& told, const sim::RunReport& report);
/// Returns an argument that the program has told, if it is a whole number.
std::optional<std::int64_t> told_number(const std::string& told, const char* name);

std::string judged_calls_text(const JudgedCalls& judged);
/// steps, unknown, equal, beside, elements_beside and rows: kind, operation, dtype, expected_elements, equal
/// and functions.
Json judged_calls_json(const JudgedCalls& judged);

}  // namespace verify
