#include "sim/comm/ledger.h"

#include <algorithm>
#include <span>

namespace sim {

RankLedger::Row& RankLedger::row_of(const CallRecord& form) {
  const auto known = std::find_if(rows_.begin(), rows_.end(), [&](const Row& row) { return row.has(form); });
  if (known != rows_.end()) return *known;
  return rows_.emplace_back(Row{form.group, form.site.name, form.operation, form.dtype});
}

void RankLedger::add(const CallLog& calls, std::size_t count) {
  const std::span<const CallLog::Form> forms = calls.forms();
  if (rows_.empty()) rows_.reserve(forms.size());
  thread_local std::vector<std::int64_t> of_form;  // the memory of one log serves for the next
  of_form.assign(forms.size(), 0);
  calls.for_first(count, [](std::size_t form, std::int64_t) { ++of_form[form]; });
  for (std::size_t form = 0; form < forms.size(); ++form) {
    if (of_form[form] == 0) continue;
    Row& row = row_of(forms[form]);
    row.calls += of_form[form];
    row.elements += of_form[form] * forms[form].count;
    row.bytes_inside += of_form[form] * forms[form].bytes_inside;
    row.bytes_across += of_form[form] * forms[form].bytes_across;
  }
}

bool RankLedger::has_call_in(const ProcessGroup& group) const {
  return std::any_of(rows_.begin(), rows_.end(), [&](const Row& row) { return row.group == &group; });
}

void Ledger::add(const RankLedger& rank) {
  struct Own {
    LedgerRow* row;
    std::int64_t bytes;
  };
  thread_local std::vector<Own> own;  // several groups of a kind, and several sites of a name, share a row
  own.clear();
  for (const RankLedger::Row& of_rank : rank.rows_) {
    LedgerRow& row = rows_[{of_rank.group->kind, of_rank.site, of_rank.operation, of_rank.dtype}];
    row.calls += of_rank.calls;
    row.elements += of_rank.elements;
    row.bytes_inside += of_rank.bytes_inside;
    row.bytes_across += of_rank.bytes_across;
    const auto known = std::find_if(own.begin(), own.end(), [&](const Own& o) { return o.row == &row; });
    Own& total = known != own.end() ? *known : own.emplace_back(Own{&row, 0});
    total.bytes += of_rank.bytes_inside + of_rank.bytes_across;
  }
  for (const Own& total : own) {
    ++total.row->ranks;
    total.row->most_bytes = std::max(total.row->most_bytes, total.bytes);
  }
}

std::vector<LedgerRow> Ledger::rows() const {
  std::vector<LedgerRow> result;
  result.reserve(rows_.size());
  for (const auto& [key, row] : rows_) {
    result.push_back(row);
    result.back().kind = key.kind;
    result.back().site = key.site;
    result.back().operation = key.operation;
    result.back().dtype = key.dtype;
  }
  return result;
}

}  // namespace sim
