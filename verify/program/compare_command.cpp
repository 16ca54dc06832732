#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <optional>
#include <set>
#include <vector>

#include "verify/output/json.h"
#include "verify/output/phrases.h"
#include "verify/output/refusal_table.h"
#include "verify/program/commands.h"
#include "verify/program/run_from.h"
#include "verify/requests/command_requests.h"
#include "verify/run/compared_report.h"
#include "verify/run/value_files.h"

namespace verify {

namespace {

struct ComparedFolder {
  ValuesOfFolder read;
  ComparedValues compared;
};

struct ComparedFolders {
  ValuesOfFolder reference;
  std::optional<ValuesOfFolder> twin;
  std::vector<ComparedFolder> folders;
  std::set<std::string> left_out;  // what is not compared
  int exit_code() const {
    const auto holds = [](const ComparedFolder& each) { return each.compared.holds(); };
    return std::ranges::all_of(folders, holds) ? kVerified : kFalsified;
  }
};

ComparedFolders compared_folders(const CommandLine& line) {
  if (line.scenarios.empty()) refuse_by("missing_option/values", "DIR");
  if (!line.settings.has("against")) refuse_by("missing_option", "--against", "DIR");
  ComparedFolders all{.reference = values_of_folder(line.settings.text("against", ""), "--against")};
  all.left_out = all.reference.values.left_out;
  if (line.settings.has("twin")) all.twin = values_of_folder(line.settings.text("twin", ""), "--twin");
  for (const std::string& folder : line.scenarios) {
    ValuesOfFolder read = values_of_folder(folder, "DIR");
    const JudgedBy judged{.coarsest = coarser(read.coarsest, all.reference.coarsest),
                          .twin = all.twin ? &all.twin->values : nullptr};
    ComparedValues compared = compared_values(read.values, all.reference.values, {}, judged);
    all.left_out.merge(not_compared(read.values, all.reference.values));
    all.folders.push_back({std::move(read), std::move(compared)});
  }
  return all;
}

std::vector<ComparedRow> rows_of(const ComparedFolders& all) {
  std::vector<ComparedRow> rows;
  for (const ComparedFolder& each : all.folders)
    rows.push_back({each.read.folder, each.read.ranks, false, each.compared});
  return rows;
}

const char* verdict_of(const ComparedFolders& all) {
  return all.exit_code() == kVerified ? "verified" : "falsified";
}

std::string bound_of(const ComparedFolders& all) {
  if (all.twin) return fmt::format("16 times the errors of {}", all.twin->folder);
  sim::DType coarsest = all.reference.coarsest;
  for (const ComparedFolder& each : all.folders) coarsest = coarser(coarsest, each.read.coarsest);
  return fmt::format("that of {}; give --twin, another run of the reference, for one that is measured",
                     name_of(coarsest));
}

std::string text_of(const ComparedFolders& all) {
  std::string text = fmt::format("{}: {}", verdict_of(all), compared_table("folder", rows_of(all)));
  for (const ComparedFolder& each : all.folders) text += wrong_text(each.read.folder, each.compared, "");
  text += fmt::format("\ncompared   {}\nreference  {}, of {}\nbound      {}\n", kinds_text(rows_of(all)),
                      all.reference.folder, counted(all.reference.ranks, "rank"), bound_of(all));
  return text + left_out_text(all.left_out);
}

Json json_of(const ComparedFolders& all) {
  return {{"verdict", verdict_of(all)},
          {"reference", all.reference.folder},
          {"bound", bound_of(all)},
          {"left_out", json_list(all.left_out, [](const std::string& name) { return Json(name); })},
          {"folders", json_list(rows_of(all), compared_json)}};
}

}  // namespace

int run_compare(const Call& call) {
  const ComparedFolders all = compared_folders(call.line);
  if (asks_for_json(call.line)) {
    write_json(call, json_of(all));
  } else {
    call.output.out << text_of(all);
  }
  return all.exit_code();
}

}  // namespace verify
