#include "verify/program/known_values.h"

#include <string_view>

#include "sim/layout/kind_table.h"
#include "verify/campaign/case_request.h"
#include "verify/cases/case.h"
#include "verify/checks/planted_programs.h"
#include "verify/faults/fault.h"
#include "verify/properties/properties.h"

namespace verify {

namespace {

constexpr std::string_view kMore = ",...";

/// Returns the names of the items of a table.
template <typename Items, typename NameOf>
std::vector<std::string> names_of(const Items& items, const NameOf& name_of) {
  std::vector<std::string> names;
  for (const auto& item : items) names.emplace_back(name_of(item));
  return names;
}

}  // namespace

std::vector<std::string> known_values(const OptionInfo& option, const CaseList& cases) {
  if (!option.choices.empty()) return option.choices;
  std::string_view value = option.value;
  if (is_list(option)) value.remove_suffix(kMore.size());
  if (value == "KIND") return sim::all_kind_names();
  if (value == "DTYPE") return dtype_names();
  if (value == "CASE") return names_of(cases, [](const auto& one) { return one->name(); });
  if (value == "NAME") return names_of(fault_table(), [](const FaultInfo& fault) { return fault.name; });
  if (value == "PROPERTY") return names_of(all_properties(), [](const Property& p) { return p.name; });
  if (value == "PROGRAM") return names_of(planted_programs(), [](const PlantedProgram& p) { return p.name; });
  return {};
}

bool is_file(const OptionInfo& option) {
  const std::string_view value = option.value;
  return value == "FILE" || value == "FOLDER";
}

bool is_list(const OptionInfo& option) { return std::string_view(option.value).ends_with(kMore); }

}  // namespace verify
