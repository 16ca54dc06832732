#include <fmt/format.h>
#include <fmt/ranges.h>

#include "sim/layout/kind_table.h"
#include "verify/cases/case.h"
#include "verify/cases/case_list.h"
#include "verify/checks/planted_programs.h"
#include "verify/faults/fault.h"
#include "verify/output/json.h"
#include "verify/output/refusal_table.h"
#include "verify/output/report_json.h"
#include "verify/output/text_table.h"
#include "verify/program/commands.h"
#include "verify/properties/properties.h"
#include "verify/replay/replay_checks.h"
#include "verify/requests/command_requests.h"
#include "verify/requests/scenario.h"

namespace verify {

namespace {

Json list_json(const std::vector<Scenario>& scenarios) {
  Json document = {{"scenarios", Json::array()},    {"checks", Json::array()},
                   {"programs", Json::array()},     {"cases", Json::array()},
                   {"properties", Json::array()},   {"faults", Json::array()},
                   {"kinds", sim::all_kind_names()}};
  for (const Scenario& scenario : scenarios)
    document["scenarios"].push_back({{"path", scenario.path}, {"source", scenario.source}});
  for (const ReplayCheck& check : replay_checks())
    document["checks"].push_back({{"name", check.name}, {"proves", check.proves}});
  for (const PlantedProgram& program : planted_programs()) {
    document["programs"].push_back(
        {{"name", program.name}, {"defect", program.defect}, {"finding", program.finding}});
  }
  for (const auto& one : all_cases()) document["cases"].push_back(one->name());
  for (const Property& property : all_properties())
    document["properties"].push_back({{"name", property.name}, {"proves", property.proves}});
  for (const FaultInfo& fault : fault_table())
    document["faults"].push_back({{"form", form_of(fault)}, {"about", fault.about}});
  return document;
}

std::string list_text(const std::vector<Scenario>& scenarios) {
  TextTable files({"scenario", "source"});
  for (const Scenario& scenario : scenarios) files.row(scenario.path, scenario.source);
  TextTable checks({"check of replay", "proves that"});
  for (const ReplayCheck& check : replay_checks()) checks.row(check.name, check.proves);
  TextTable programs({"program", "planted defect", "found as"});
  for (const PlantedProgram& program : planted_programs())
    programs.row(program.name, program.defect, program.finding);
  TextTable properties({"property of check", "proves that"});
  for (const Property& property : all_properties()) properties.row(property.name, property.proves);
  TextTable faults({"fault of --plant SITE:FAULT[@WHERE]", "means"});
  for (const FaultInfo& fault : fault_table()) faults.row(form_of(fault), fault.about);
  faults.add(
      {"@rank=R,place=P,call=N,group=KIND", "Only there: a rank, a place of the group, the N-th call."});
  faults.row("@pass=PASS,microbatch=N,layer=N,step=N", "Only in this part of a training.");
  faults.row("device.KERNEL, tensor.NAME", "Sites of kernels and of published tensors.");
  std::vector<std::string> cases;
  for (const auto& one : all_cases()) cases.push_back(one->name());
  const std::vector<std::string> kinds = sim::all_kind_names();
  const std::string counts = fmt::format(
      "{} scenarios, {} checks of replay, {} programs, {} properties, {} faults, {} cases, {} kinds of "
      "groups",
      scenarios.size(), replay_checks().size(), planted_programs().size(), all_properties().size(),
      fault_table().size(), cases.size(), kinds.size());
  return fmt::format("{}\n{}\n{}\n{}\n{}\ncases        {}\ngroup kinds  {}\n\n{}\n", files.text(),
                     checks.text(), programs.text(), properties.text(), faults.text(),
                     fmt::join(cases, "\n             "), fmt::join(kinds, " "), counts);
}

}  // namespace

int run_list(const Call& call) {
  const CommandLine& line = call.line;
  if (!line.scenarios.empty()) refuse_by("one_scenario/list", line.scenarios[0]);
  std::vector<Scenario> scenarios;
  for (const std::string& path : scenario_files()) scenarios.push_back(read_scenario(path));
  call.output.out << (asks_for_json(line) ? one_line(list_json(scenarios)) : list_text(scenarios));
  return kVerified;
}

}  // namespace verify
