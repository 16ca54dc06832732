#pragma once

/// Layers and communicators that are wrong on purpose, and the property that has to catch each of them in the
/// field.
///
/// Source  mistakes that others have had: issues and commits of Megatron-LM (MLM), TransformerEngine (TE) and
///         others; the mutations that TrainVerify and Entangle were shown to find.

#include <memory>
#include <string>
#include <vector>

#include "verify/cases/case.h"
#include "verify/properties/bench.h"

namespace test {

struct Defect {
  std::string name;
  std::string source;    // "MLM#5338"; empty: of our own
  std::string property;  // that catches it in the field
  std::string says;      // how the explanation begins; "..." is any text; empty: not said
  std::shared_ptr<const verify::Case> the_case;
  std::shared_ptr<sim::CpuDevice> device;
};

const std::vector<Defect>& catalogue();

}  // namespace test
