#pragma once

/// A catalogue of published bugs, each written as a fault that is planted in a case. A file of it has a
/// section for each bug:
///
///   # Source: where the bugs of this file were published
///   [column: input gradient not summed]
///   source = MLM 5fffdfc737
///   case = column_parallel_linear
///   fault = column_parallel_linear.backward:skip
///   property = serial
///   names = column_parallel_linear.backward
///
/// Shapes  `source` is left out for a bug that nobody has published. `fault` may be given several times; all
///         are planted together. `property` has to catch the bug, in draws of `dtype` (the field, if it is
///         left out), and the failure or its explanation has to contain `names`.
/// Errors  catalogue_missing: there is no such file, or it cannot be read; catalogue_syntax: a line that is
///         neither '[bug]' nor 'key = value', a key before the first bug, a key or a bug that is given twice;
///         catalogue_key: a key that no bug has; catalogue_incomplete: a key that is not given;
///         nothing_in_catalogue: the files, or the cases that were chosen, have no bug; and what
///         case_request.h and fault.h refuse, with the line that gives it. All that is wrong with the files
///         is refused at once, before any run.
/// Exact   the rows are a function of the entries, for any number of benches, unless it is stopped.

#include <span>
#include <string>
#include <vector>

#include "verify/campaign/campaign.h"
#include "verify/cases/case_list.h"
#include "verify/exam/exam.h"
#include "verify/requests/case_options.h"

namespace verify {

struct CatalogueEntry {
  std::string bug;
  std::string file;
  std::string source;  // "" for a bug that nobody has published
  std::string names;
  CampaignRequest request;  // one case, one property, one dtype, and the faults

  const Case& the_case() const { return *request.cases.front(); }
  const Property& property() const { return *request.properties.front(); }
  /// The faults as they are written, with ", " between them.
  std::string faults_text() const;
};

/// Reads files of the catalogue. Cases are looked up among `cases`; the seed, the number of draws and the
/// largest world are those of the options, and so are the cases that are chosen.
std::vector<CatalogueEntry> read_catalogue(const std::vector<std::string>& files, const CaseOptions& options,
                                           const CaseList& cases);

/// What became of a bug. caught: the property fails, and says what it has to; unnamed: it fails, and does not
/// say that; missed: it holds in all draws.
struct CatalogueRow {
  const CatalogueEntry* entry = nullptr;
  FaultVerdict verdict = FaultVerdict::not_run;
  std::int64_t runs = 0;
  std::string sentence;  // what the property said; where it was missed, whether any call had the fault
  std::optional<Failure> failure;
};

/// Refuses cases that declare what cannot be (case_rules.h) and faults that no call of their case has
/// (no_such_site), and then runs every entry.
std::vector<CatalogueRow> run_catalogue(std::span<const CatalogueEntry> entries, std::span<Bench> benches,
                                        const ExamGoesOn& goes_on);

}  // namespace verify
