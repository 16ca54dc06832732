#pragma once

/// A rank program that runs on a backend and among virtual ranks: what each rank published and called there
/// is held against its twin.
///
///   bits       where the backend adds in a known order: everything, bit for bit
///   bounds     where it does not: calls and shapes; and what each rank of a case published, put in the place
///              of its twin's in the simulated world, and of those that hold the same, lies within the bounds
///              of the case's serial reference
///
/// Calls   run_twins() by all processes, with the same programs; rank 0 then has what all found. A program
///         that is refused, or throws, stops all processes.
/// Exact   the same programs give the same rows on every run.

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "sim/comm/rank.h"
#include "verify/backends/backend.h"
#include "verify/cases/case.h"

namespace verify {

struct TwinProgram {
  std::string row;  // that it counts for; those of a row follow one another
  sim::WorldSpec world;
  sim::RankProgram program;        // of a case: not given
  const Case* the_case = nullptr;  // with its setting
  CaseSetting setting = {};
  std::string words = {};  // what a difference is said of, where the row does not tell
};

/// A case with one setting.
TwinProgram twin_of(std::string row, const Case& the_case, const CaseSetting& setting, sim::WorldSpec world);

struct TwinRow {
  std::string name;
  std::int64_t runs = 0;
  std::int64_t tensors = 0;  // of all ranks
  std::int64_t bytes = 0;    // of them
  std::int64_t calls = 0;
  bool is_bounded = false;  // not held to the bit
  std::int64_t runs_with_unbounded =
      0;                        // of this process's ranks: some elements had no bound, and were not judged
  std::string difference = {};  // the first that was found; empty: none
  bool is_equal() const { return difference.empty(); }
};

/// What all processes found.
struct TwinVerdict {
  std::vector<TwinRow> rows;
  int exit_code = 0;               // the same on every process
  std::vector<std::string> notes;  // rank 0: of every rank, in order
};

/// `before_run` is told of the number of programs that have run, and of the row of the next.
std::vector<TwinRow> run_twins(Backend& backend, const std::vector<TwinProgram>& programs,
                               const std::function<void(std::size_t, const std::string&)>& before_run);

/// All processes tell rank 0 what they found; beside the rows, whether all else was right on this one, and a
/// few words.
TwinVerdict concluded(Backend& backend, std::vector<TwinRow> rows, bool is_right = true,
                      const std::string& note = "");

}  // namespace verify
