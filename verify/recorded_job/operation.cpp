#include "verify/recorded_job/operation.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <string>

#include "verify/output/table_rows.h"
#include "verify/recordings/value_tree.h"

namespace verify {

namespace {

constexpr std::string_view kOperations =
#include "operations.tsv.inc"
    ;

/// Returns the rows of the table by all names that they have.
std::map<std::string, TextRow> operations_by_name() {
  std::map<std::string, TextRow> found;
  for (const TextRow& row : rows_of_table(kOperations)) {
    found[row[0]] = row;
    for (const std::string& name : words_of_cell(row[2])) found[name] = row;
  }
  return found;
}

/// Reads "0->3" or "3<-0" into the positions that send and receive.
void read_peers(std::string_view text, Operation& operation) {
  const std::size_t sign = std::min(text.find_first_of("<-"), text.size());
  const std::string_view arrow = text.substr(sign, 2), behind = text.substr(sign + arrow.size());
  const auto first = number_of<int>(text.substr(0, sign)), second = number_of<int>(behind);
  if (!first || !second || *first < 0 || *second < 0 || (arrow != "->" && arrow != "<-")) return;
  operation.from = arrow == "->" ? *first : *second;
  operation.to = arrow == "->" ? *second : *first;
}

}  // namespace

Operation operation_named(std::string_view recorded) {
  Operation operation;
  const std::size_t colon = recorded.find(':');
  if (colon != std::string_view::npos) {
    operation.backend = std::string(recorded.substr(0, colon));
    recorded.remove_prefix(colon + 1);
  }
  const std::size_t blank = recorded.find(' ');
  const std::string_view name = recorded.substr(0, blank);
  operation.name = std::string(recorded);
  if (name == "send" || name == "recv") {
    operation.kind = name == "send" ? Operation::Kind::send : Operation::Kind::recv;
    if (blank == std::string_view::npos) return operation;
    operation.name = std::string(name);
    read_peers(recorded.substr(blank + 1), operation);
    return operation;
  }
  static const std::map<std::string, TextRow> known = operations_by_name();
  if (const auto row = known.find(operation.name); row != known.end()) {
    operation.name = row->second[0];
    if (row->second[1] == "rooted") operation.kind = Operation::Kind::rooted;
  }
  return operation;
}

}  // namespace verify
