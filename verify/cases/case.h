#pragma once

/// A case is one layer, operator or training: a rank program with its serial reference. A case declares the
/// tensors that it publishes and how each is placed on the ranks. Every property (properties.h) then
/// holds for the case, or is shown not to hold.
///
/// Shapes  Dimensions are drawn one by one from their ranges, and all combinations are valid: a size that
///         must be a multiple of tp is given per rank. A failing case can therefore shrink one number at
///         a time.
/// Calls   A new case is a file in verify/cases/ with a class, and a line in case_list.cpp. In another
///         project it is a class that is passed to prove.h.

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

/// One number of a case, with its range. A flag ranges from 0 to 1.
struct Dimension {
  std::string name;
  std::int64_t least;
  std::int64_t most;
  bool is_a_rank = false;  // the number is given per rank; the whole is tp times as large
  /// Returns the value for a scenario. The number is drawn where this is null or returns nothing.
  std::optional<std::int64_t> (*at)(const ScenarioTraits& traits) = nullptr;
};

/// A special value that replaces one element of some of the drawn inputs. `large` scales all elements of
/// those inputs. Special values are for floats only.
enum class Special { none, nan, infinity, minus_infinity, large };

/// A part of a training that stops and resumes. It runs the steps from `first` up to, but not including,
/// `last`, and loads the state from the store unless `first` is 0.
struct Stretch {
  std::int64_t first = 0;
  std::int64_t last = 0;
  bool saves = true;
  std::shared_ptr<sim::CheckpointStore> store;
  bool operator==(const Stretch&) const = default;
};

/// The process group that the `tp` ranks of a setting form: a tensor-parallel group, a data-parallel
/// group, or a world of its own layout.
enum class Ranks : std::uint8_t { tensor_parallel, data_parallel, world };

struct CaseSetting {
  int tp = 1;
  int replicas = 1;                      // replicas of the group, with the same inputs
  Ranks ranks = Ranks::tensor_parallel;  // the same as Case::ranks()
  sim::DType dtype = sim::DType::field;
  std::uint64_t seed = 0;
  std::map<std::string, std::int64_t> dimensions;
  Special special = Special::none;
  std::optional<Stretch> stretch = std::nullopt;          // none: the whole training
  std::shared_ptr<const sim::TextCorpus> text = nullptr;  // the training text; null: drawn tokens

  bool operator==(const CaseSetting&) const = default;
  std::int64_t operator[](const std::string& name) const { return dimensions.at(name); }
  /// Returns the whole size of a dimension that is given per rank.
  std::int64_t whole(const std::string& name) const { return tp * dimensions.at(name); }
};

/// Returns "tp", "dp" or "world".
const char* name_of(Ranks ranks);

/// Returns the setting as text: "tp 4, f32, seed 7, hidden 3, ...".
std::string text_of(const CaseSetting& setting);

/// How a whole tensor is placed on the ranks that publish it.
enum class Placement {
  replicated,  // every rank has the whole, bit for bit the same
  rows,        // rank r has the r-th part of the rows
  columns,     // rank r has the r-th part of the columns, or of the elements of a vector
  partial,     // the whole is the sum over the ranks
};

struct CaseOutput {
  std::string name;
  Placement placement = Placement::replicated;
  int stride = 1;                 // blocks of rows or columns in a part (sim/parallel/parameter.h)
  bool same_order = false;        // the serial layer adds in the same order and gives the same bits
  std::vector<int> part_of = {};  // part by rank; -1: not published; empty: rank r of a replica has part r
  bool adds = false;              // ranks of one part hold terms of a sum; else all hold the same values

  /// Returns the part of the whole that a rank has.
  int part(int rank, int tp) const;
  /// Returns the number of parts of the whole.
  int parts(int tp) const;
  bool is_sum() const { return adds || placement == Placement::partial; }
};

/// A tensor in which a case is linear, and its gradient, by the names under which both are published. A
/// linear map is compared with its adjoint: <output, grad_output> must equal the sum of <value, gradient>
/// over the terms of the identity.
struct AdjointTerm {
  std::string value;
  std::string gradient;
};
using AdjointIdentity = std::vector<AdjointTerm>;

/// Returns `count` keyed whole numbers from 0 to below `below`, such as ids of tokens. Each depends on
/// the seed, the name and its index.
std::vector<std::int64_t> drawn_ids(const CaseSetting& setting, const std::string& name, std::int64_t count,
                                    std::int64_t below);

/// A change of one input of a reference, for an experiment (explanation.h): one part of the input is
/// multiplied by `factor`.
struct InputChange {
  enum class Axis { rows, columns };
  std::string name;
  Axis axis = Axis::rows;
  int part = 0;  // the index of the part, among `parts` equal parts
  int parts = 1;
  std::int64_t factor = 1;
};

/// The inputs of a reference: its kind of number, and every input as a whole, with the values that the
/// ranks draw.
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
  /// Returns the whole of an input that ranks get from drawn().
  reference::Matrix<Scalar> matrix(const std::string& name, std::int64_t rows, std::int64_t columns) const;
  /// Returns the initial values of a parameter.
  reference::Matrix<Scalar> parameter(const std::string& name, std::int64_t rows, std::int64_t columns,
                                      sim::Ratio scale = {}) const;

  /// Returns the factors by which dropout multiplies the elements of a tensor, in the pass that the dimension
  /// `pass` names. A part of -1 stands for the random stream that all ranks share, and a part from 0 to
  /// tp - 1 for the stream of one rank's own tensor.
  reference::Matrix<Scalar> dropout(const std::string& name, std::int64_t rows, std::int64_t columns,
                                    sim::Ratio probability, int part = -1) const;

 private:
  reference::Matrix<Scalar> taken(const std::string& name, reference::Matrix<Scalar> values) const;

  reference::Number<Scalar> number_;
  const CaseSetting& setting_;
  const InputChange* change_;  // may be null
  Seen* seen_;                 // keeps the inputs that were read; may be null
  std::shared_ptr<sim::CpuDevice> device_;
};

template <typename Scalar>
using Wholes = std::map<std::string, reference::Matrix<Scalar>>;

class Case {
 public:
  virtual ~Case() = default;
  virtual std::string name() const = 0;
  virtual Ranks ranks() const { return Ranks::tensor_parallel; }
  /// Returns the sizes of the world that the case runs in, which has tp * replicas ranks.
  virtual sim::ParallelSizes sizes(const CaseSetting& setting) const;
  virtual std::vector<Dimension> dimensions() const = 0;
  virtual std::vector<CaseOutput> outputs(const CaseSetting& setting) const = 0;
  virtual std::vector<ExpectedCall> calls(const CaseSetting& setting) const = 0;
  /// Returns the calls of one rank. It is overridden where ranks make different calls.
  virtual std::vector<ExpectedCall> calls_of(const CaseSetting& setting, int /*rank*/) const {
    return calls(setting);
  }
  /// Returns the kind of functions with which the field computes.
  virtual sim::FieldFunctions field_functions() const { return sim::FieldFunctions::homomorphic; }
  /// Returns the adjoint identities. It is empty where the case is not linear in the tensors that it has
  /// gradients of.
  virtual std::vector<AdjointIdentity> adjoint(const CaseSetting&) const { return {}; }
  /// Returns other settings that compute the same bits in another way; empty where there are none.
  virtual std::vector<CaseSetting> twins(const CaseSetting&) const { return {}; }
  /// Returns the setting as stretches, each of which runs in a world of its own. The last one publishes the
  /// outputs of the whole training. It is empty where the case is not a training.
  virtual std::vector<CaseSetting> stretches(const CaseSetting&) const { return {}; }
  /// Runs the case on one rank, which publishes its part of every output.
  virtual void run(sim::Rank& rank, const CaseSetting& setting) const = 0;
  virtual Wholes<sim::Field> serial(const Inputs<sim::Field>& inputs, const CaseSetting& setting) const = 0;
  virtual Wholes<reference::Bounded> serial(const Inputs<reference::Bounded>& inputs,
                                            const CaseSetting& setting) const = 0;
};

/// The base class of a case whose reference is one template:
/// template <typename Scalar> Wholes<Scalar> reference(inputs, setting) const.
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

/// Returns a keyed tensor with the values that Inputs::matrix() returns.
sim::Tensor drawn(sim::Rank& rank, const CaseSetting& setting, const std::string& name,
                  const sim::Shape& shape);
/// Returns the part of a keyed tensor that belongs to this rank of its tensor-model-parallel group: its
/// rows, or its columns.
sim::Tensor drawn_own_rows(sim::Rank& rank, const CaseSetting& setting, const std::string& name,
                           std::int64_t rows, std::int64_t columns);
sim::Tensor drawn_own_columns(sim::Rank& rank, const CaseSetting& setting, const std::string& name,
                              std::int64_t rows, std::int64_t columns);
sim::Tensor tensor_of_ids(sim::Rank& rank, const std::vector<std::int64_t>& ids);

/// Returns the calls that a rank must make, in order. There are none at tp 1.
std::vector<ExpectedCall> expected_calls(const Case& the_case, const CaseSetting& setting, int rank);

}  // namespace verify
