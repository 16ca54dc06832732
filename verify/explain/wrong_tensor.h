#pragma once

/// The tensors of a run in the field that differ from what they should be: which elements do, on which ranks,
/// and which tensors before them are right.
///
/// Shapes  elements are those of the whole tensor, row by row. An element belongs to a rank where that rank
///         alone holds it; of a sum, where no other rank's term of it differs from zero.
/// Exact   a rank is wrong if its own copy or part differs. Of a sum, all ranks may be.

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "verify/cases/case_inputs.h"
#include "verify/properties/bench.h"

namespace verify {

using FieldWhole = reference::Matrix<sim::Field>;

/// A run in the field, and what its reference returns and reads. Both must outlive it.
struct ComparedRun {
  const Case& the_case;
  const CaseSetting& setting;
  const sim::RunReport& report;
  reference::Number<sim::Field> number;
  Wholes<sim::Field> serial = {};
  SeenInputs<sim::Field> inputs = {};
  /// Other values that a tensor may have by mistake, by their description, such as "its value before the
  /// last step"; and of each of them the values by tensor.
  std::map<std::string, Wholes<sim::Field>> others = {};
  std::set<std::string> ruled_out = {};     // names of numbers that a factor has here by coincidence
  std::set<std::string> coincidences = {};  // the recognisers that fit here by coincidence
};

/// Runs the reference of a case for a run.
ComparedRun compared_run(Bench& bench, const Case& the_case, const CaseSetting& setting,
                         const sim::RunReport& report);

struct WrongTensor {
  const ComparedRun* run = nullptr;
  CaseOutput output;
  std::int64_t rows = 1;
  std::int64_t columns = 1;
  std::vector<sim::Field> got;  // of the first wrong rank, where ranks have copies
  FieldWhole serial;
  std::vector<int> owner;      // by element: the rank that it belongs to; -1 for none
  std::vector<bool> is_wrong;  // by element
  std::set<int> ranks;         // all that have a part of it
  std::set<int> wrong_ranks;   // empty where they cannot be told
  bool is_input = false;       // the layer is given it, or draws it: nothing computes it

  std::size_t count_wrong() const;
  /// Whether no element has a value: then no change reaches the tensor visibly.
  bool has_no_value() const;
  /// Whether an element has no value, and the serial one has.
  bool lacks_a_value() const;
  /// Whether some of its ranks are known to be right.
  bool is_of_some_ranks() const { return !wrong_ranks.empty() && wrong_ranks.size() < ranks.size(); }
  /// Returns the elements that an explanation must explain: those of the wrong ranks, or all of them.
  std::vector<std::size_t> judged() const;
};

/// The tensors up to the first of another shape than the serial one.
struct WrongTensors {
  std::vector<WrongTensor> wrong;  // the inputs first, then in the order of outputs()
  std::vector<std::string> right;  // those before the first wrong one
  std::string without_reference;   // a tensor that the reference does not return
};

/// Runs the case. Returns null where a contract is broken or the tensors are not those that are declared, so
/// that there is nothing to compare.
std::shared_ptr<const sim::RunReport> fit_run(Bench& bench, const Case& the_case, const CaseSetting& setting);

/// Compares one output, which may be right. Its shape must be the serial one.
WrongTensor compared_tensor(const ComparedRun& run, const CaseOutput& output);

WrongTensors wrong_tensors(const ComparedRun& run);

/// Returns "all ranks" or "the only rank" of so many, or some ranks in words ("ranks 0, 1 and 3").
std::string text_of_ranks(const std::set<int>& ranks, std::size_t all);

}  // namespace verify
