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
#include "verify/exam/exam_reasons.h"
#include "verify/properties/bench.h"
#include "verify/properties/properties.h"

namespace verify {

struct ExamRequest {
  std::vector<const Case*> cases;
  std::vector<std::string> faults = {};  // the names of faults; empty: all
  std::uint64_t seed = 0;
  int max_world = 8;
  bool explains = true;
};

enum class ExamVerdict : std::uint8_t { not_run, caught, equivalent, missed };
const char* name_of(ExamVerdict verdict);

struct ExamRow {
  const Case* the_case = nullptr;
  Fault fault = {};
  ExamVerdict verdict = ExamVerdict::not_run;
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

  std::int64_t count(ExamVerdict verdict) const;
};

/// Called before every fault, by one thread at a time: how many are done, of how many. Returns whether the
/// exam goes on.
using ExamGoesOn = std::function<bool(std::size_t done, std::size_t total, const std::string& what)>;

Exam run_exam(const ExamRequest& request, std::span<Bench> benches, const ExamGoesOn& goes_on);

}  // namespace verify
