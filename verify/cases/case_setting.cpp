#include "verify/cases/case_setting.h"

#include <fmt/format.h>

namespace verify {

std::string text_of(const CaseSetting& setting) {
  std::string text = fmt::format("{} {}, {}, seed {}", name_of(setting.ranks), setting.group_size,
                                 sim::name_of(setting.dtype), setting.seed);
  if (setting.replicas > 1) text += fmt::format(", replicas {}", setting.replicas);
  for (const auto& [name, value] : setting.dimensions) text += fmt::format(", {} {}", name, value);
  if (setting.stretch) text += fmt::format(", steps [{}, {})", setting.stretch->first, setting.stretch->last);
  return text;
}

const char* name_of(Ranks ranks) {
  switch (ranks) {
    case Ranks::tensor_parallel:
      return "tp";
    case Ranks::data_parallel:
      return "dp";
    case Ranks::world:
      return "world";
  }
  return "";
}

}  // namespace verify
