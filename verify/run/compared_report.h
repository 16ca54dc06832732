#pragma once

/// What is said of values that are held against a reference: how many runs hold, a row for each, and what is
/// wrong first in one that does not.

#include <set>
#include <string>
#include <vector>

#include "verify/output/json.h"
#include "verify/run/compared_values.h"

namespace verify {

struct ComparedRow {
  std::string name;
  int ranks;
  bool is_broken;  // its run did not end, so nothing was compared
  const ComparedValues& compared;
};

/// Returns "the gradient of x in step 0 on ranks 0, 1: it is zero".
std::string wrong_sentence(const WrongValue& wrong);
/// Returns the sentence "1 of 2 layouts compute what the reference computes", and the table of all.
std::string compared_table(const std::string& called, const std::vector<ComparedRow>& rows);
/// Returns the kinds of values that were compared: "parameters, losses".
std::string kinds_text(const std::vector<ComparedRow>& rows);
/// Returns what is wrong with one, and then the end; "" if nothing is.
std::string wrong_text(const std::string& name, const ComparedValues& compared, const std::string& end);
/// Returns the line that names what is not compared; "" if there is nothing.
std::string left_out_text(const std::set<std::string>& names);
/// name, ranks, verdict ("holds", "falsified", "broken" or "incomparable"), values, worst_slack,
/// incomparable, wrong (step, name, value, ranks, elements, what).
Json compared_json(const ComparedRow& row);

}  // namespace verify
