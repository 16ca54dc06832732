#include "verify/program/site_list.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <map>
#include <string>
#include <vector>

#include "verify/faults/faulty_device.h"
#include "verify/output/json.h"
#include "verify/output/text_table.h"

namespace verify {

void write_sites(std::span<const SiteOperation> sites, bool as_json, const Output& output) {
  std::map<std::string, std::vector<std::string>> operations;  // none of a kernel or tensor
  for (const SiteOperation& one : sites) {
    std::vector<std::string>& of_site = operations[one.site];
    if (!one.is_tensor()) of_site.emplace_back(sim::name_of(one.operation));
  }
  for (const std::string& kernel : kernel_names()) operations[kernel];
  if (as_json) {
    Json rows = Json::array();
    for (const auto& [site, of_site] : operations) rows.push_back({{"site", site}, {"operations", of_site}});
    output.out << one_line({{"sites", std::move(rows)}});
    return;
  }
  TextTable table({{"site"}, {"operations"}});
  for (const auto& [site, of_site] : operations)
    table.add({site, fmt::format("{}", fmt::join(of_site, ", "))});
  output.out << table.text();
}

}  // namespace verify
