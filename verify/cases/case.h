#pragma once

/// A case is one layer, operator or training: a rank program with its serial reference. A case declares the
/// tensors that it publishes and how each is placed on the ranks. Every property (properties.h) is then
/// judged for the case.
///
/// Calls   A new case is a file in verify/cases/ with a class (case_inputs.h has what it is written with),
///         and a line in case_list.cpp. In another project it is a class that is passed to prove.h.

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "sim/base/field_tower.h"
#include "sim/comm/rank.h"
#include "sim/layout/parallel_sizes.h"
#include "verify/cases/case_setting.h"
#include "verify/cases/expected_call.h"

namespace verify {

namespace reference {
class Bounded;
}

template <typename Scalar>
class Inputs;
template <typename Scalar>
struct Wholes;

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
  int stride = 1;           // blocks of rows or columns in a part (sim/parallel/parameter.h)
  bool same_order = false;  // the serial layer adds in the same order and gives the same bits
  // The part that each rank holds, or -1 if it publishes none. If this is empty, rank r of a replica holds
  // part r. The parts of a replicated tensor are copies of it.
  std::vector<int> part_of = {};
  bool adds = false;           // the ranks of one part hold terms of a sum, not the same values
  bool is_of_the_way = false;  // the values say how the case computes, which differs between twins

  /// Returns the part of the whole that a rank has.
  int part(int rank, int group_size) const;
  /// Returns the number of parts of the whole.
  int parts(int group_size) const;
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

/// A number by which a case multiplies or divides.
struct NamedNumber {
  std::string name;
  std::int64_t value;
};

using ExpectedOfRank = std::function<ExpectedRun(int rank)>;

class Case {
 public:
  virtual ~Case() = default;
  virtual std::string name() const = 0;
  virtual Ranks ranks() const { return Ranks::tensor_parallel; }
  /// Returns the sizes of the world that the case runs in, which has group_size * replicas ranks.
  virtual sim::ParallelSizes sizes(const CaseSetting& setting) const;
  virtual std::vector<Dimension> dimensions() const = 0;
  virtual std::vector<CaseOutput> outputs(const CaseSetting& setting) const = 0;
  virtual std::vector<ExpectedCall> calls(const CaseSetting& setting) const = 0;
  /// Returns what one rank is expected to do. It is overridden where ranks do different things.
  virtual ExpectedRun expected_of(const CaseSetting& setting, int /*rank*/) const {
    return {.calls = calls(setting)};
  }
  /// Returns a function that gives expected_of() of each rank. It is overridden where the ranks share a
  /// computation.
  virtual ExpectedOfRank expected_by_rank(const CaseSetting& setting) const {
    return [this, setting](int rank) { return expected_of(setting, rank); };
  }
  /// Returns the numbers, besides that of the ranks, that name a factor by which a tensor may be wrong. They
  /// are the sizes of the case, which are 1 at least, unless it says which of them it multiplies by.
  virtual std::vector<NamedNumber> factors(const CaseSetting& setting) const;
  /// Returns the kind of functions with which the field computes.
  virtual sim::FieldFunctions field_functions() const { return sim::FieldFunctions::homomorphic; }
  /// Returns the adjoint identities; none if the case is not linear in the tensors whose gradients it
  /// computes.
  virtual std::vector<AdjointIdentity> adjoint(const CaseSetting&) const { return {}; }
  /// Returns other settings that compute the same bits in another way; none if there are no such settings.
  virtual std::vector<CaseSetting> twins(const CaseSetting&) const { return {}; }
  /// Returns the setting cut into stretches, each of which runs in a world of its own; none if the case is
  /// not a training. The last stretch publishes the outputs of the whole training.
  virtual std::vector<CaseSetting> stretches(const CaseSetting&) const { return {}; }
  /// Runs the case on one rank, which publishes its part of every output.
  virtual void run(sim::Rank& rank, const CaseSetting& setting) const = 0;
  virtual Wholes<sim::Field> serial(const Inputs<sim::Field>& inputs, const CaseSetting& setting) const = 0;
  virtual Wholes<reference::Bounded> serial(const Inputs<reference::Bounded>& inputs,
                                            const CaseSetting& setting) const = 0;
};

/// Returns what each rank must do, with its calls in order. There are none in a group of one rank.
ExpectedOfRank expected_runs(const Case& the_case, const CaseSetting& setting);
/// Returns the calls of one rank.
std::vector<ExpectedCall> expected_calls(const Case& the_case, const CaseSetting& setting, int rank);

}  // namespace verify
