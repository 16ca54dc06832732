#pragma once

/// A case: one layer or operator, as a rank program, and its serial reference. What it publishes, and how
/// each tensor is placed on the ranks, is declared; every property (properties.h) then holds for it, or is
/// shown not to.
///
/// Shapes  dimensions are drawn one by one from their ranges, and any of them go together: a size that has to
///         divide by tp is given a rank. So a failing case shrinks one number at a time.
/// Calls   a new case is a file in verify/cases/ with a class, and a line in case_list.cpp; or, outside, a
///         class that prove.h is given.

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sim/comm/rank.h"
#include "sim/cpu/cpu_device.h"
#include "sim/layout/parallel_sizes.h"
#include "sim/model/text_corpus.h"
#include "sim/optimizer/checkpoint_store.h"
#include "verify/cases/expected_call.h"
#include "verify/cases/scenario_traits.h"
#include "verify/reference/matrix.h"
#include "verify/reference/perturbed.h"

namespace verify {

/// One number of a case; flags are from 0 to 1.
struct Dimension {
  std::string name;
  std::int64_t least;
  std::int64_t most;
  bool is_a_rank = false;  // the whole is tp times as large
  /// Its value at a scenario; null, or nothing: it is drawn there, too.
  std::optional<std::int64_t> (*at)(const ScenarioTraits& traits) = nullptr;
};

/// What some of the drawn inputs have at one element each (large: at all); floats only.
enum class Special { none, nan, infinity, minus_infinity, large };

/// A part of a training that stops and goes on: from step `first`, loaded from the store unless it is 0, to
/// before `last`.
struct Stretch {
  std::int64_t first = 0;
  std::int64_t last = 0;
  bool saves = true;
  std::shared_ptr<sim::CheckpointStore> store;
  bool operator==(const Stretch&) const = default;
};

/// What the ranks of a case are to each other.
enum class Ranks : std::uint8_t { tensor_parallel, data_parallel, world };

struct CaseSetting {
  int tp = 1;
  int replicas = 1;                      // of the tensor-model-parallel group, with the same inputs
  Ranks ranks = Ranks::tensor_parallel;  // what the tp ranks are: as the case says
  sim::DType dtype = sim::DType::field;
  std::uint64_t seed = 0;
  std::map<std::string, std::int64_t> dimensions;
  Special special = Special::none;
  std::optional<Stretch> stretch = std::nullopt;          // none: all of it
  std::shared_ptr<const sim::TextCorpus> text = nullptr;  // that a model is trained on; null: drawn tokens

  bool operator==(const CaseSetting&) const = default;
  std::int64_t operator[](const std::string& name) const { return dimensions.at(name); }
  /// A dimension that is given for each rank.
  std::int64_t whole(const std::string& name) const { return tp * dimensions.at(name); }
};

/// "tp", "dp", "world".
const char* name_of(Ranks ranks);

/// "tp 4, f32, seed 7, hidden 3, ..."
std::string text_of(const CaseSetting& setting);

/// Where the whole of a published tensor lies.
enum class Placement {
  replicated,  // the whole on every rank, bit for bit the same
  rows,        // rank r has the r-th part of the rows
  columns,     // of the columns; of a vector, of its elements
  partial,     // the whole is the sum over the ranks
};

struct CaseOutput {
  std::string name;
  Placement placement = Placement::replicated;
  int stride = 1;                 // of rows and columns: a part is so many blocks (sim/parallel/parameter.h)
  bool same_order = false;        // the serial layer adds in the same order: equal to it bit for bit
  std::vector<int> part_of = {};  // by rank, -1: does not publish it. Empty: rank r of a replica has part r
  bool adds = false;              // ranks of one part hold terms of it; else all hold the same

  /// Of the whole, the part that a rank has.
  int part(int rank, int tp) const;
  int parts(int tp) const;
  bool is_sum() const { return adds || placement == Placement::partial; }
};

/// What a case is linear in, and its gradient, both published. A linear map is held against its adjoint:
/// <output, grad_output> is the sum of <value, gradient> over the terms of an identity.
struct AdjointTerm {
  std::string value;
  std::string gradient;
};
using AdjointIdentity = std::vector<AdjointTerm>;

/// A token's id, or another whole number below a bound, by name and index.
std::vector<std::int64_t> drawn_ids(const CaseSetting& setting, const std::string& name, std::int64_t count,
                                    std::int64_t below);

/// A part of one input that counts otherwise than it should: an experiment on a reference (explanation.h).
struct InputChange {
  enum class Axis { rows, columns };
  std::string name;
  Axis axis = Axis::rows;
  int part = 0;  // of `parts` equal ones
  int parts = 1;
  std::int64_t factor = 1;
};

/// What a reference is given: its scalar, and the whole of each input, the same values that the ranks draw.
template <typename Scalar>
class Inputs {
 public:
  using Seen = std::map<std::string, reference::Matrix<Scalar>>;
  Inputs(const CaseSetting& setting, reference::Number<Scalar> number, const InputChange* change = nullptr,
         Seen* seen = nullptr)
      : number_(number),
        setting_(setting),
        change_(change),
        seen_(seen),
        device_(std::make_shared<sim::CpuDevice>()) {}
  const reference::Number<Scalar>& number() const { return number_; }
  /// What ranks have by drawn().
  reference::Matrix<Scalar> matrix(const std::string& name, std::int64_t rows, std::int64_t columns) const;
  /// A parameter's initial values.
  reference::Matrix<Scalar> parameter(const std::string& name, std::int64_t rows, std::int64_t columns,
                                      sim::Ratio scale = {}) const;

  /// What dropout multiplies each element of a tensor by: of the stream that all ranks share, or (part from 0
  /// to tp - 1) of a rank's own tensor; in the pass that the dimension `pass` says.
  reference::Matrix<Scalar> dropout(const std::string& name, std::int64_t rows, std::int64_t columns,
                                    sim::Ratio probability, int part = -1) const;

 private:
  reference::Matrix<Scalar> taken(const std::string& name, reference::Matrix<Scalar> values) const;

  reference::Number<Scalar> number_;
  const CaseSetting& setting_;
  const InputChange* change_;  // or null
  Seen* seen_;                 // keeps what was asked for; or null
  std::shared_ptr<sim::CpuDevice> device_;
};

template <typename Scalar>
using Wholes = std::map<std::string, reference::Matrix<Scalar>>;

class Case {
 public:
  virtual ~Case() = default;
  virtual std::string name() const = 0;
  virtual Ranks ranks() const { return Ranks::tensor_parallel; }
  /// Of the world that it runs in: tp * replicas ranks.
  virtual sim::ParallelSizes sizes(const CaseSetting& setting) const;
  virtual std::vector<Dimension> dimensions() const = 0;
  virtual std::vector<CaseOutput> outputs(const CaseSetting& setting) const = 0;
  virtual std::vector<ExpectedCall> calls(const CaseSetting& setting) const = 0;
  /// Where ranks make different ones.
  virtual std::vector<ExpectedCall> calls_of(const CaseSetting& setting, int /*rank*/) const {
    return calls(setting);
  }
  /// What the field computes with.
  virtual sim::FieldFunctions field_functions() const { return sim::FieldFunctions::homomorphic; }
  /// Empty where the case is not linear in what it has gradients of.
  virtual std::vector<AdjointIdentity> adjoint(const CaseSetting&) const { return {}; }
  /// Settings that are computed in other ways and give the same bits; empty where there are none.
  virtual std::vector<CaseSetting> twins(const CaseSetting&) const { return {}; }
  /// The setting in stretches, each a world of its own, of which the last has the outputs of the whole; empty
  /// where it is no training.
  virtual std::vector<CaseSetting> stretches(const CaseSetting&) const { return {}; }
  /// Publishes every output.
  virtual void run(sim::Rank& rank, const CaseSetting& setting) const = 0;
  virtual Wholes<sim::Field> serial(const Inputs<sim::Field>& inputs, const CaseSetting& setting) const = 0;
  virtual Wholes<reference::Bounded> serial(const Inputs<reference::Bounded>& inputs,
                                            const CaseSetting& setting) const = 0;
};

/// A case whose reference is one template: template <typename Scalar> Wholes<Scalar> reference(inputs,
/// setting) const.
template <typename Derived>
class CaseOf : public Case {
 public:
  Wholes<sim::Field> serial(const Inputs<sim::Field>& inputs, const CaseSetting& setting) const override {
    return derived().template reference<sim::Field>(inputs, setting);
  }
  Wholes<reference::Bounded> serial(const Inputs<reference::Bounded>& inputs,
                                    const CaseSetting& setting) const override {
    return derived().template reference<reference::Bounded>(inputs, setting);
  }

 private:
  const Derived& derived() const { return static_cast<const Derived&>(*this); }
};

/// A keyed tensor, as Inputs::matrix has it whole.
sim::Tensor drawn(sim::Rank& rank, const CaseSetting& setting, const std::string& name,
                  const sim::Shape& shape);
/// This rank's part of it, in the tensor-model-parallel group.
sim::Tensor drawn_own_rows(sim::Rank& rank, const CaseSetting& setting, const std::string& name,
                           std::int64_t rows, std::int64_t columns);
sim::Tensor drawn_own_columns(sim::Rank& rank, const CaseSetting& setting, const std::string& name,
                              std::int64_t rows, std::int64_t columns);
sim::Tensor tensor_of_ids(sim::Rank& rank, const std::vector<std::int64_t>& ids);

/// What a rank has to call, in order; nothing on one rank.
std::vector<ExpectedCall> expected_calls(const Case& the_case, const CaseSetting& setting, int rank);

}  // namespace verify
