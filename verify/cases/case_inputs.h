#pragma once

/// What a case is written with: the inputs that its ranks and its reference draw from the same keys, and the
/// base class of a case whose reference is one template on the scalar. Files that define or judge a
/// reference include this header, which brings Eigen; all others need case.h only.
///
/// Exact   Inputs::matrix() and drawn() give the same values, which depend on the seed and the name only.

#include <cstdint>
#include <initializer_list>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "sim/cpu/cpu_device.h"
#include "verify/cases/case.h"
#include "verify/reference/matrix.h"
#include "verify/reference/perturbed.h"

namespace verify {

/// Returns `count` keyed whole numbers from 0 to below `below`, such as ids of tokens. Each depends on
/// the seed, the name and its index.
std::vector<std::int64_t> drawn_ids(const CaseSetting& setting, const std::string& name, std::int64_t count,
                                    std::int64_t below);

/// A change of the inputs of a reference, for an experiment (experiments.h). One part of each input of these
/// names is multiplied by `factor`, or each part is replaced by the one `shift` places after it; inputs are
/// drawn under other names; ids are replaced by others.
struct InputChange {
  enum class Axis { rows, columns };
  std::set<std::string> names = {};
  Axis axis = Axis::rows;
  int part = 0;  // the index of the part, among `parts` equal parts
  int parts = 1;
  std::int64_t factor = 1;
  int shift = 0;
  std::map<std::string, std::string> drawn_as = {};
  std::map<std::string, std::vector<std::int64_t>> ids = {};
};

/// The inputs that a reference has read, by their names.
template <typename Scalar>
struct SeenInputs {
  std::map<std::string, reference::Matrix<Scalar>> matrices;
  std::map<std::string, std::vector<std::int64_t>> ids;
};

/// Returns the device on which the references of this thread draw their inputs. Making one for each of them
/// would take longer than to draw the inputs of a small case.
std::shared_ptr<sim::CpuDevice> drawing_device();

/// The inputs of a reference: its kind of number, and every input as a whole, with the values that the
/// ranks draw.
template <typename Scalar>
class Inputs {
 public:
  using Seen = SeenInputs<Scalar>;
  Inputs(const CaseSetting& setting, reference::Number<Scalar> number, const InputChange* change = nullptr,
         Seen* seen = nullptr)
      : number_(number), setting_(setting), change_(change), seen_(seen), device_(drawing_device()) {}
  const reference::Number<Scalar>& number() const { return number_; }
  const CaseSetting& setting() const { return setting_; }
  /// Whether the inputs are those that the ranks draw, and nobody keeps what is read of them.
  bool are_plain() const { return change_ == nullptr && seen_ == nullptr; }
  /// Returns the whole of an input that ranks get from drawn().
  reference::Matrix<Scalar> matrix(const std::string& name, std::int64_t rows, std::int64_t columns) const;
  /// Returns the initial values of a parameter.
  reference::Matrix<Scalar> parameter(const std::string& name, std::int64_t rows, std::int64_t columns,
                                      sim::Ratio scale = {}) const;

  /// Returns the ids of this name, such as those of tokens, which are `own` unless an experiment replaces
  /// them.
  std::vector<std::int64_t> ids(const std::string& name, std::vector<std::int64_t> own) const;

  /// Returns the factors by which dropout multiplies the elements of a tensor, in the pass that the dimension
  /// `pass` names. A part of -1 stands for the random stream that all ranks share, and a part from 0 to
  /// tp - 1 for the stream of one rank's own tensor.
  reference::Matrix<Scalar> dropout(const std::string& name, std::int64_t rows, std::int64_t columns,
                                    sim::Ratio probability, int part = -1) const;

 private:
  const std::string& drawn_as(const std::string& name) const;
  reference::Matrix<Scalar> taken(const std::string& name, reference::Matrix<Scalar> values) const;

  reference::Number<Scalar> number_;
  const CaseSetting& setting_;
  const InputChange* change_;  // may be null
  Seen* seen_;                 // keeps the inputs that were read; may be null
  std::shared_ptr<sim::CpuDevice> device_;
};

/// The outputs of a reference, as wholes, by their names. Those that the case does not declare at a setting,
/// such as the gradient of a bias that a layer does not have, are not compared.
template <typename Scalar>
struct Wholes : std::map<std::string, reference::Matrix<Scalar>> {
  struct Named {
    const char* name;
    mutable reference::Matrix<Scalar> whole;  // which the list gives away
  };
  Wholes() = default;
  Wholes(std::initializer_list<Named> outputs) {
    for (const Named& output : outputs) this->emplace(output.name, std::move(output.whole));
  }
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
/// Returns `count` elements of a keyed row of `whole` elements, from `first` on, as a row.
sim::Tensor drawn_elements(sim::Rank& rank, const CaseSetting& setting, const std::string& name,
                           std::int64_t whole, std::int64_t first, std::int64_t count);
/// Returns the part of a keyed tensor that belongs to this rank of its tensor-model-parallel group: its
/// rows, or its columns.
sim::Tensor drawn_own_rows(sim::Rank& rank, const CaseSetting& setting, const std::string& name,
                           std::int64_t rows, std::int64_t columns);
sim::Tensor drawn_own_columns(sim::Rank& rank, const CaseSetting& setting, const std::string& name,
                              std::int64_t rows, std::int64_t columns);
sim::Tensor tensor_of_ids(sim::Rank& rank, const std::vector<std::int64_t>& ids);

// Outputs that follow from a choice of the reference which an error may have exchanged with another one.
//
// Exact   in the field every choice is certain.

/// Makes every element of the outputs unknown (Bounded::is_unknown), so that none is judged.
inline void leave_unjudged(const reference::Number<sim::Field>&, Wholes<sim::Field>&) {}
inline void leave_unjudged(const reference::Number<reference::Bounded>& number,
                           Wholes<reference::Bounded>& wholes) {
  for (auto& [name, whole] : wholes)
    for (Eigen::Index i = 0; i < whole.size(); ++i) whole.data()[i] = number.unknown(whole.data()[i].value());
}

}  // namespace verify
