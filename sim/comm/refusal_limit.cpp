#include "sim/comm/refusal_limit.h"

#include <fmt/format.h>
#include <iterator>

namespace sim {

void RefusalLimit::on_refusal(const Refusal& refusal) {
  ++refusals_;
  if (!first_) first_ = refusal;
  if (recorder_.number_of_calls() + refusals_ > call_limit_ + kMostRefusals) give_up_(refusal);
}

std::string sentence_of_refusals(const Refusal& latest) {
  return fmt::format("it catches refusals and goes on, the latest of {}: {}, {}", latest.code, latest.option,
                     latest.numbers);
}

}  // namespace sim
