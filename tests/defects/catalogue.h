#pragma once

/// Layers and communicators that are wrong on purpose, each with the property that must catch it in the
/// field.
///
/// Source  mistakes that others have made: issues and commits of Megatron-LM (MLM), TransformerEngine (TE)
///         and others; the mutations that TrainVerify and Entangle were shown to find.

#include <memory>
#include <string>
#include <vector>

#include "verify/cases/case.h"
#include "verify/properties/bench.h"

namespace test {

struct Defect {
  std::string name;
  std::string source;    // for example "MLM#5338"; empty for a mistake of our own
  std::string property;  // the property that catches the defect in the field
  std::shared_ptr<const verify::Case> the_case;
  std::shared_ptr<sim::CpuDevice> device;
  int most_ranks = 3;  // of the smallest setting that a campaign finds
};

const std::vector<Defect>& catalogue();

}  // namespace test
