#include "verify/report_json.h"

#include <nlohmann/json.hpp>

namespace verify {

nlohmann::ordered_json refusal_json(const sim::Refusal& refusal) {
  return {{"code", refusal.code},
          {"option", refusal.option},
          {"numbers", refusal.numbers},
          {"rule", refusal.rule},
          {"hint", refusal.hint}};
}

nlohmann::ordered_json warnings_json(const std::vector<sim::Warning>& warnings) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const sim::Warning& warning : warnings)
    list.push_back({{"name", warning.name}, {"message", warning.message}});
  return list;
}

std::string one_line(const nlohmann::ordered_json& document) {
  return document.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace verify
