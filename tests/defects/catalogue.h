#pragma once

/// What is wrong on purpose, each with the property that must catch it in the field: the bugs of the ready
/// catalogue (scenarios/faults), which are faults of the grammar, and layers, kernels and collectives whose
/// mistakes need code.
///
/// Source  mistakes that others have made: issues and commits of Megatron-LM (MLM), TransformerEngine (TE)
///         and others; the mutations that TrainVerify and Entangle were shown to find.

#include <memory>
#include <string>
#include <vector>

#include "verify/cases/case.h"
#include "verify/exam/fault_catalogue.h"
#include "verify/properties/bench.h"

namespace test {

struct Defect {
  std::string name;
  std::string source;    // for example "MLM#5338"; empty for a mistake of our own
  std::string property;  // the property that catches the defect in the field
  std::shared_ptr<const verify::Case> the_case;
  std::shared_ptr<sim::CpuDevice> device = nullptr;  // null for a bug of the ready catalogue
  const verify::CatalogueEntry* bug = nullptr;       // null for a mistake that needs code
  int most_ranks = 3;                                // of the smallest setting that a campaign finds

  /// Returns a bench on which the case has the defect.
  verify::Bench bench() const;
};

/// The bugs of scenarios/faults.
const std::vector<verify::CatalogueEntry>& bugs();

/// All defects: the bugs of scenarios/faults, and then those that need code.
const std::vector<Defect>& catalogue();

/// Returns the defect of this name, which must exist.
const Defect& defect_named(const std::string& name);

}  // namespace test
