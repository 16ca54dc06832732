#pragma once

/// A rank program that runs on a backend and on virtual ranks. The published tensors and the calls of each
/// rank are compared with those of its twin, the virtual rank with the same number.
///
///   bits       if the backend adds in a known order: everything is compared bit for bit
///   bounds     if it does not: calls and shapes are compared. For a case, the tensors that a rank published
///              replace those of its twin in the simulated world, and those of all ranks that hold the same;
///              the result must lie within the bounds of the case's serial reference
///   properties if a program asks for it (`must_hold`): the case is first judged on virtual ranks, by the
///   properties that one run shows. If it does not hold, it does not run on the backend. Without this, a rank
///   that is wrong in the same way as its twin would pass
///
/// Calls   all processes call run_twins() with the same programs, and then concluded(), after which rank 0
///         has the findings of all. A program that is refused, or throws, stops all processes.
/// Exact   the same programs give the same rows on every run.

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "sim/comm/rank.h"
#include "verify/backends/backend.h"
#include "verify/cases/case.h"
#include "verify/properties/properties.h"

namespace verify {

struct TwinProgram {
  std::string row;  // name of the row for which it counts; the programs of a row are consecutive
  sim::WorldSpec world;
  sim::RankProgram program;        // empty if the_case is given
  const Case* the_case = nullptr;  // the case that runs with `setting`; null: `program` runs
  CaseSetting setting = {};
  std::string words = {};  // put before a difference, if the name of the row is not enough
  /// Is called on every process with what its ranks did on the backend.
  std::function<void(const RanksHere&)> keep = {};
  bool must_hold = false;  // the_case must also have its properties on virtual ranks
};

/// Returns the properties that a run of a program with `must_hold` must show on virtual ranks.
std::vector<const Property*> required_properties();

/// Returns the program that runs a case with one setting.
TwinProgram twin_of(std::string row, const Case& the_case, const CaseSetting& setting, sim::WorldSpec world);

struct TwinRow {
  std::string name;
  std::int64_t runs = 0;
  std::int64_t tensors = 0;  // published by all ranks
  std::int64_t bytes = 0;    // of these tensors
  std::int64_t calls = 0;    // made by all ranks
  bool is_bounded = false;   // compared within bounds, not bit for bit
  /// The runs in which some elements, on virtual ranks or of this process's ranks, had no bound and were not
  /// judged.
  std::int64_t runs_with_unbounded = 0;
  /// The first difference that was found: from the twin, or on virtual ranks from what a property demands;
  /// empty if there is none.
  std::string difference = {};
  bool is_equal() const { return difference.empty(); }
};

/// The findings of all processes.
struct TwinVerdict {
  std::vector<TwinRow> rows;
  int exit_code = 0;               // the same on every process
  std::vector<std::string> notes;  // on rank 0: the notes of all ranks, in order
};

/// Runs the programs. `before_run` is called before each of them with the number of programs that have run,
/// and with the row of the next one.
std::vector<TwinRow> run_twins(Backend& backend, const std::vector<TwinProgram>& programs,
                               const std::function<void(std::size_t, const std::string&)>& before_run);

/// Reports the findings of every process to rank 0: its rows, whether everything else was right on this
/// process (`is_right`), and a short note.
TwinVerdict concluded(Backend& backend, std::vector<TwinRow> rows, bool is_right = true,
                      const std::string& note = "");

}  // namespace verify
