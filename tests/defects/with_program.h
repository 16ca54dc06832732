#pragma once

/// Cases that run another rank program than their own.

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>

#include "verify/cases/case_inputs.h"
#include "verify/cases/case_list.h"

namespace test {

/// What the reference of a right case returns. Many defects are planted in one case and are tried at the same
/// settings, for which the reference is the same, unless an experiment of an explanation changes its inputs.
/// The results of one case at a time are kept.
template <typename Scalar>
verify::Wholes<Scalar> shared_reference(const verify::Case& right, const verify::Inputs<Scalar>& inputs,
                                        const verify::CaseSetting& setting) {
  struct Known {
    verify::CaseSetting setting;
    verify::Wholes<Scalar> wholes;
  };
  static const verify::Case* of = nullptr;
  static std::multimap<std::uint64_t, Known> known;  // by seed
  if (!inputs.are_plain()) return right.serial(inputs, setting);
  if (std::exchange(of, &right) != &right) known.clear();
  const auto [first, last] = known.equal_range(setting.seed);
  for (auto at = first; at != last; ++at)
    if (at->second.setting == setting) return at->second.wholes;
  return known.emplace(setting.seed, Known{setting, right.serial(inputs, setting)})->second.wholes;
}

/// A case whose rank program is replaced by another one. The reference, the calls and the settings stay those
/// of the case.
class WithProgram : public verify::Case {
 public:
  using Program =
      std::function<void(const verify::Case& right, sim::Rank& rank, const verify::CaseSetting& setting)>;
  WithProgram(const std::string& right, Program program)
      : right_(*verify::find_case(right)), program_(std::move(program)) {}

  std::string name() const override { return right_.name(); }
  verify::Ranks ranks() const override { return right_.ranks(); }
  sim::FieldFunctions field_functions() const override { return right_.field_functions(); }
  std::vector<verify::CaseSetting> twins(const verify::CaseSetting& s) const override {
    return right_.twins(s);
  }
  std::vector<verify::CaseSetting> stretches(const verify::CaseSetting& s) const override {
    return right_.stretches(s);
  }
  sim::ParallelSizes sizes(const verify::CaseSetting& s) const override { return right_.sizes(s); }
  std::vector<verify::Dimension> dimensions() const override { return right_.dimensions(); }
  std::vector<verify::CaseOutput> outputs(const verify::CaseSetting& s) const override {
    return right_.outputs(s);
  }
  std::vector<verify::ExpectedCall> calls(const verify::CaseSetting& s) const override {
    return right_.calls(s);
  }
  verify::ExpectedRun expected_of(const verify::CaseSetting& s, int rank) const override {
    return right_.expected_of(s, rank);
  }
  verify::ExpectedOfRank expected_by_rank(const verify::CaseSetting& s) const override {
    return right_.expected_by_rank(s);
  }
  std::vector<verify::NamedNumber> factors(const verify::CaseSetting& s) const override {
    return right_.factors(s);
  }
  std::vector<verify::AdjointIdentity> adjoint(const verify::CaseSetting& s) const override {
    return right_.adjoint(s);
  }
  void run(sim::Rank& rank, const verify::CaseSetting& s) const override { program_(right_, rank, s); }
  verify::Wholes<sim::Field> serial(const verify::Inputs<sim::Field>& inputs,
                                    const verify::CaseSetting& s) const override {
    return shared_reference(right_, inputs, s);
  }
  verify::Wholes<verify::reference::Bounded> serial(const verify::Inputs<verify::reference::Bounded>& inputs,
                                                    const verify::CaseSetting& s) const override {
    return shared_reference(right_, inputs, s);
  }

 private:
  const verify::Case& right_;
  Program program_;
};

}  // namespace test
