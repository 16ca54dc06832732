#include "sim/base/error.h"

#include <cstddef>
#include <fmt/format.h>
#include <utility>

#include "sim/base/printable_text.h"
#include "sim/base/refusal_watch.h"

namespace sim {

namespace {

Refusal printable(Refusal refusal) {
  for (std::string* field : {&refusal.code, &refusal.option, &refusal.numbers, &refusal.rule, &refusal.hint})
    *field = printable_text(*field);
  return refusal;
}

}  // namespace

Error::Error(Refusal refusal)
    : refusal_(printable(std::move(refusal))),
      what_(fmt::format("{} [{}]: {}; rule: {}; try: {}", refusal_.option, refusal_.code, refusal_.numbers,
                        refusal_.rule, refusal_.hint)) {}

std::string text_of(const SizeToTry& to_try) {
  const std::string tried = to_try.size ? fmt::format("{} {}", to_try.option, *to_try.size)
                                        : fmt::format("another {}", to_try.option);
  return to_try.instead.empty() ? tried : fmt::format("{}, or {}", to_try.instead, tried);
}

std::string text_of(const Refusal& given) {
  const Refusal refusal = printable(given);
  return fmt::format("{}: {}\n  given  {}\n  rule   {}\n  try    {}\n", refusal.code, refusal.option,
                     refusal.numbers, refusal.rule, refusal.hint);
}

void refuse(Refusal refusal) {
  if (refusal.to_try) refusal.hint = text_of(*refusal.to_try);
  constexpr std::size_t kLongest = 400;
  for (std::string* field : {&refusal.option, &refusal.numbers, &refusal.rule, &refusal.hint}) {
    if (field->size() <= kLongest) continue;
    *field = fmt::format("{} ... ({} characters)", field->substr(0, kLongest), field->size());
  }
  if (RefusalWatch* watch = refusal_watch()) watch->on_refusal(refusal);
  throw Error(std::move(refusal));
}

}  // namespace sim
