#pragma once

/// What is known of a case at a setting before it runs: its reference in the field and in floats, and the
/// calls of its ranks. An exam judges many runs of one setting by them, each with another fault.
///
/// Calls   one thread uses a store. Nothing is kept before keep(), and then settings of the latest case.
/// Exact   what is returned is the same whether it was kept or not.

#include <memory>
#include <vector>

#include "verify/cases/case.h"

namespace verify {

class KnownReferences {
 public:
  /// Keeps what is known of at most so many settings from now on.
  void keep(std::size_t settings) { most_ = settings; }

  std::shared_ptr<const Wholes<sim::Field>> in_field(const Case& the_case, const CaseSetting& setting,
                                                     const sim::FieldTower& tower);
  std::shared_ptr<const Wholes<reference::Bounded>> in_floats(const Case& the_case,
                                                              const CaseSetting& setting);
  /// Returns the same as expected_runs(), for use before the next call of this store.
  ExpectedOfRank calls(const Case& the_case, const CaseSetting& setting);

 private:
  struct Known {
    CaseSetting setting;
    std::shared_ptr<const Wholes<sim::Field>> in_field = nullptr;
    std::shared_ptr<const Wholes<reference::Bounded>> in_floats = nullptr;
    ExpectedOfRank calls = nullptr;
  };
  Known& known(const Case& the_case, const CaseSetting& setting);

  std::size_t most_ = 0;
  const Case* case_ = nullptr;
  std::vector<Known> all_;
};

}  // namespace verify
