#include "verify/options/model_divisions.h"

#include <fmt/format.h>

#include "sim/base/error.h"

namespace verify {

namespace {

struct Division {
  const char* code;
  const char* option;
  std::int64_t parts;
  const char* of;  // what the parts are, as the message names them
  const char* rule;
};

void require_divides(const Settings& settings, const Division& division) {
  const auto size = settings.number(division.option);
  if (!size || *size % division.parts == 0) return;
  const std::int64_t next = (*size / division.parts + 1) * division.parts;
  sim::refuse({.code = division.code,
               .option = fmt::format("--{}", division.option),
               .numbers = fmt::format("{} over {} {}", *size, division.parts, division.of),
               .rule = division.rule,
               .hint = fmt::format("--{} {}", division.option, next)});
}

}  // namespace

void require_model_divides(const Settings& settings, const sim::Layout& layout) {
  require_divides(settings, {"ffn_tp_div", "ffn-hidden-size", layout.tp, "tensor-parallel ranks",
                             "every tensor-parallel rank has as many columns of the MLP"});
  if (settings.flag("sequence-parallel")) {
    require_divides(settings, {"sequence_tp_div", "seq-length", std::int64_t{layout.tp} * layout.cp, "ranks",
                               "with sequence parallelism every rank has as many tokens of a sequence"});
  }
  if (layout.cp > 1) {
    require_divides(settings, {"sequence_cp_div", "seq-length", std::int64_t{2} * layout.cp, "parts",
                               "every context-parallel rank has two equal parts of a sequence"});
  }
}

}  // namespace verify
