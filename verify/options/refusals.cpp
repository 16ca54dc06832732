#include "verify/options/refusals.h"

#include <algorithm>

namespace verify {

std::vector<sim::Refusal> further_refusals(const sim::Error& error) {
  const auto* several = dynamic_cast<const SeveralRefused*>(&error);
  return several == nullptr ? std::vector<sim::Refusal>{} : several->further();
}

void Refusals::throw_if_any() const {
  if (!all_.empty()) throw SeveralRefused(all_.front(), {all_.begin() + 1, all_.end()});
}

void Refusals::add(const sim::Error& error) {
  add(error.refusal());
  for (const sim::Refusal& refusal : further_refusals(error)) add(refusal);
}

void Refusals::add(const sim::Refusal& refusal) {
  const auto is_same_rule = [&](const sim::Refusal& other) { return other.code == refusal.code; };
  if (std::none_of(all_.begin(), all_.end(), is_same_rule)) all_.push_back(refusal);
}

}  // namespace verify
