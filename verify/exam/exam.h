#pragma once

/// An exam of the properties: would they have noticed? Each planned fault (exam.cpp) is planted in up to
/// eight drawn settings, until a property does not hold: in the field, and where it lets a fault pass, in f64
/// and in f32.
///
///   caught      a property does not hold, or a rank broke a contract
///   equivalent  in the field, in every one of these settings, every published tensor and every call of every
///               rank is the same as without the fault; a fault of floats is compared in f32
///   missed      something differs, and every property holds
///
/// Calls   The runs are divided over the threads that the benches stand for.
/// Exact   The same request gives the same rows for any number of threads, unless it is stopped.

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "verify/cases/case.h"
#include "verify/faults/fault.h"
#include "verify/properties/bench.h"
#include "verify/properties/properties.h"

namespace verify {

// Judges an explanation by the fault that was planted: whether it names the site, the ranks and the kind of
// mistake. The texts are searched as a reader would: for the name of the site, for the ranks, and for the
// words of a kind. The words of a wrong group count in the explanation alone, because a refusal describes
// the call that was made, and not that it goes over the wrong group.

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

struct ExamRequest {
  std::vector<const Case*> cases;
  std::vector<std::string> faults = {};  // the names of faults; empty: all
  std::uint64_t seed = 0;
  int max_world = 8;
};

/// What became of a planted fault. `unnamed`, of a catalogue (fault_catalogue.h): a property fails, and does
/// not say what it has to.
enum class FaultVerdict : std::uint8_t { not_run, caught, equivalent, unnamed, missed };
const char* name_of(FaultVerdict verdict);

struct ExamRow {
  const Case* the_case = nullptr;
  Fault fault = {};
  FaultVerdict verdict = FaultVerdict::not_run;
  std::string by = {};        // the property, or the code of the finding
  std::string sentence = {};  // what it said; of an equivalent fault why it may be
  CaseSetting setting = {};   // where it was caught, or where something differed first
  int runs = 0;
  std::string explanation = {};
  bool is_explained = false;  // of trainings one fault in ten is, because that takes long
  NamedReasons named = {};
};

struct Exam {
  std::vector<ExamRow> rows;
  std::int64_t clean_runs = 0;
  std::vector<std::string> false_alarms;
  bool is_whole = true;

  std::int64_t count(FaultVerdict verdict) const;
};

/// Called before every item (a fault, a bug, a site), by one thread at a time: how many are done, of how
/// many. Returns whether the work goes on.
using ExamGoesOn = std::function<bool(std::size_t done, std::size_t total, const std::string& what)>;

/// Does `work` for each item on the threads that the benches stand for, unless it is stopped. Returns whether
/// it came to its end.
bool over_items(std::size_t count, std::span<Bench> benches, const ExamGoesOn& goes_on,
                const std::function<std::string(std::size_t)>& name_of,
                const std::function<void(Bench&, std::size_t)>& work);

Exam run_exam(const ExamRequest& request, std::span<Bench> benches, const ExamGoesOn& goes_on);

}  // namespace verify
