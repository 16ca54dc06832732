#include "tests/defects/exam.h"

#include <algorithm>
#include <string_view>

namespace test {

using enum Verdict;

const ExamAnswer* answer_for(const std::string& defect) {
  const auto& all = exam_answers();
  const auto found =
      std::find_if(all.begin(), all.end(), [&](const auto& one) { return one.defect == defect; });
  return found == all.end() ? nullptr : &*found;
}

const char* name_of(Verdict verdict) {
  return verdict == right ? "right" : verdict == vague ? "vague" : "wrong";
}

std::optional<verify::Failure> failure_of(const Defect& defect, const std::string& property,
                                          sim::DType dtype) {
  using namespace verify;
  const CampaignRequest request{.cases = {defect.the_case.get()},
                                .properties = {&property_named(property)},
                                .dtypes = {dtype},
                                .runs = 300,
                                .seed = 1,
                                .max_world = 4};
  std::vector<CampaignRow> rows = campaign_rows(request);
  if (rows.empty()) return std::nullopt;
  Bench bench = defect.bench();
  run_campaign(request, {&bench, 1}, rows, [](std::int64_t, const CampaignRow&) { return true; });
  return rows.front().failure;
}

std::string first_sentence(const verify::Failure& failure) {
  return failure.explanation.empty() ? failure.detail : failure.explanation;
}

bool begins_as(const std::string& text, const std::string& says) {
  constexpr std::string_view kDots = "...";
  std::size_t at = 0;
  for (std::size_t begin = 0; begin <= says.size();) {
    const std::size_t end = std::min(says.find(kDots, begin), says.size());
    const std::string part = says.substr(begin, end - begin);
    const std::size_t found = text.find(part, at);
    if (found == std::string::npos || (begin == 0 && found != 0)) return false;
    at = found + part.size();
    begin = end + kDots.size();
  }
  return true;
}

}  // namespace test
