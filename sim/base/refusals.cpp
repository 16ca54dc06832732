#include "sim/base/refusals.h"

#include <algorithm>

namespace sim {

std::vector<Refusal> further_refusals(const Error& error) {
  const auto* several = dynamic_cast<const SeveralRefused*>(&error);
  return several == nullptr ? std::vector<Refusal>{} : several->further();
}

void Refusals::throw_if_any() const {
  if (!all_.empty()) throw SeveralRefused(all_.front(), {all_.begin() + 1, all_.end()});
}

void Refusals::add(const Error& error) {
  add(error.refusal());
  for (const Refusal& refusal : further_refusals(error)) add(refusal);
}

void Refusals::add(const Refusal& refusal) {
  const auto is_same_rule = [&](const Refusal& other) {
    return other.code == refusal.code && other.option == refusal.option;
  };
  if (std::none_of(all_.begin(), all_.end(), is_same_rule)) all_.push_back(refusal);
}

}  // namespace sim
