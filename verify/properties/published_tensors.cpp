#include "verify/properties/published_tensors.h"

#include <algorithm>
#include <fmt/format.h>
#include <string_view>
#include <vector>

#include "sim/tensor/checks.h"
#include "verify/properties/assembled.h"

namespace verify {

namespace {

/// Whether this rank publishes a part of the output.
bool has_part(const CaseOutput& output, int rank) {
  return output.part_of.empty() || output.part_of[static_cast<std::size_t>(rank)] >= 0;
}

std::string text_of(const sim::Published& tensor, int rank) {
  return fmt::format("{} {} on rank {}", sim::name_of(tensor.dtype), sim::text_of(tensor.shape), rank);
}

std::string check_dtype(const sim::Published& tensor, int rank, sim::DType dtype) {
  const sim::DType of_sums = sim::sum_dtype(dtype);
  if (tensor.dtype == dtype || tensor.dtype == of_sums) return "";
  const std::string sums = of_sums == dtype ? "" : fmt::format(", or {} for sums", sim::name_of(of_sums));
  return fmt::format("{} is {}, but a case in {} publishes {}{}", tensor.name, text_of(tensor, rank),
                     sim::name_of(dtype), sim::name_of(dtype), sums);
}

/// Returns whether the rows or columns of a part divide into the blocks that its stride says.
std::string check_blocks(const CaseOutput& output, const sim::Published& tensor, int rank) {
  const Extent extent = extent_of(tensor.shape);
  const bool by_rows = output.placement == Placement::rows,
             by_columns = output.placement == Placement::columns;
  const std::int64_t lines = by_rows ? extent.rows : extent.columns;
  if ((!by_rows && !by_columns) || lines % output.stride == 0) return "";
  return fmt::format("{} is {}, but its stride of {} does not divide {} {}", output.name,
                     text_of(tensor, rank), output.stride, lines, by_rows ? "rows" : "columns");
}

/// Returns the output that a rank did not publish, or not as the first rank that has a part of it did.
std::string check_output(const sim::RunReport& report, const CaseOutput& output, sim::DType dtype) {
  const sim::Published* first = nullptr;
  int first_rank = 0;
  for (const sim::RankReport& rank : report.ranks) {
    if (!has_part(output, rank.rank)) continue;
    const sim::Published* own = report.find(rank.rank, output.name);
    if (own == nullptr) return fmt::format("rank {} did not publish {}", rank.rank, output.name);
    if (std::string wrong = check_dtype(*own, rank.rank, dtype); !wrong.empty()) return wrong;
    if (std::string wrong = check_blocks(output, *own, rank.rank); !wrong.empty()) return wrong;
    if (first == nullptr) first_rank = rank.rank;
    if (first == nullptr) first = own;
    if (own->shape == first->shape && own->dtype == first->dtype) continue;
    return fmt::format("{} is {}, but {}", output.name, text_of(*own, rank.rank),
                       text_of(*first, first_rank));
  }
  return "";
}

/// Returns the tensor that a rank published twice, or without a declaration that it does. The outputs are in
/// the order of their names.
std::string check_nothing_else(const sim::RankReport& rank, const std::vector<const CaseOutput*>& outputs) {
  std::string_view last;
  auto next = outputs.begin();
  for (const std::uint32_t at : rank.by_name) {
    const std::string& name = rank.published[at].name;
    const auto known = std::find_if(next, outputs.end(), [&](const auto* o) { return o->name >= name; });
    next = known;
    if (known == outputs.end() || (*known)->name != name)
      return fmt::format("rank {} published {}, which outputs() does not list, so it would not be judged",
                         rank.rank, name);
    if (!has_part(**known, rank.rank))
      return fmt::format("rank {} published {}, of which part_of gives it no part, so it would not be judged",
                         rank.rank, name);
    if (name == last)
      return fmt::format("rank {} published {} twice, so the second would not be judged", rank.rank, name);
    last = name;
  }
  return "";
}

}  // namespace

std::string check_outputs(const sim::RunReport& report, const std::vector<CaseOutput>& outputs,
                          sim::DType dtype) {
  for (const CaseOutput& output : outputs) {
    if (std::string wrong = check_output(report, output, dtype); !wrong.empty()) return wrong;
  }
  return "";
}

std::string check_published(const sim::RunReport& report, const std::vector<CaseOutput>& outputs,
                            sim::DType dtype) {
  if (std::string wrong = check_outputs(report, outputs, dtype); !wrong.empty()) return wrong;
  std::vector<const CaseOutput*> by_name;
  by_name.reserve(outputs.size());
  for (const CaseOutput& output : outputs) by_name.push_back(&output);
  std::sort(by_name.begin(), by_name.end(), [](const auto* a, const auto* b) { return a->name < b->name; });
  for (const sim::RankReport& rank : report.ranks) {
    if (std::string wrong = check_nothing_else(rank, by_name); !wrong.empty()) return wrong;
  }
  return "";
}

}  // namespace verify
