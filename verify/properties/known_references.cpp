#include "verify/properties/known_references.h"

#include <algorithm>
#include <map>

#include "verify/cases/case_inputs.h"
#include "verify/properties/properties.h"

namespace verify {

KnownReferences::Known& KnownReferences::known(const Case& the_case, const CaseSetting& setting) {
  if (case_ != &the_case) all_.clear();
  case_ = &the_case;
  const auto found =
      std::find_if(all_.begin(), all_.end(), [&](const Known& one) { return one.setting == setting; });
  if (found != all_.end()) return *found;
  if (all_.size() >= most_) all_.clear();
  return all_.emplace_back(Known{.setting = setting});
}

std::shared_ptr<const Wholes<sim::Field>> KnownReferences::in_field(const Case& the_case,
                                                                    const CaseSetting& setting,
                                                                    const sim::FieldTower& tower) {
  const auto computed = [&] {
    const reference::Number<sim::Field> number(tower);
    return std::make_shared<const Wholes<sim::Field>>(
        the_case.serial(Inputs<sim::Field>(setting, number), setting));
  };
  if (most_ == 0) return computed();
  Known& one = known(the_case, setting);
  if (one.in_field == nullptr) one.in_field = computed();
  return one.in_field;
}

std::shared_ptr<const Wholes<reference::Bounded>> KnownReferences::in_floats(const Case& the_case,
                                                                             const CaseSetting& setting) {
  const auto computed = [&] {
    return std::make_shared<const Wholes<reference::Bounded>>(bounded_reference(the_case, setting));
  };
  if (most_ == 0) return computed();
  Known& one = known(the_case, setting);
  if (one.in_floats == nullptr) one.in_floats = computed();
  return one.in_floats;
}

ExpectedOfRank KnownReferences::calls(const Case& the_case, const CaseSetting& setting) {
  if (most_ == 0) return expected_runs(the_case, setting);
  Known& one = known(the_case, setting);
  if (one.calls == nullptr) {
    one.calls = [expected = expected_runs(the_case, setting),
                 kept = std::make_shared<std::map<int, ExpectedRun>>()](int rank) {
      const auto found = kept->find(rank);
      return found == kept->end() ? kept->emplace(rank, expected(rank)).first->second : found->second;
    };
  }
  return one.calls;
}

}  // namespace verify
