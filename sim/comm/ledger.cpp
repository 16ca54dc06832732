#include "sim/comm/ledger.h"

#include <algorithm>

namespace sim {

void RankLedger::add(const CallRecord& call) {
  // Programs call in loops, so this call often belongs to the same row as the call before it.
  if (latest_ >= rows_.size() || !rows_[latest_].has(call)) {
    const auto known =
        std::find_if(rows_.begin(), rows_.end(), [&](const Row& row) { return row.has(call); });
    latest_ = static_cast<std::size_t>(known - rows_.begin());
    if (known == rows_.end()) rows_.push_back({call.group, call.site.name, call.operation, call.dtype});
  }
  Row& row = rows_[latest_];
  ++row.calls;
  row.elements += call.count;
  row.bytes_inside += call.bytes_inside;
  row.bytes_across += call.bytes_across;
}

bool RankLedger::has_call_in(const ProcessGroup& group) const {
  return std::any_of(rows_.begin(), rows_.end(), [&](const Row& row) { return row.group == &group; });
}

void Ledger::add(const RankLedger& rank) {
  struct Own {
    LedgerRow* row;
    std::int64_t bytes;
  };
  std::vector<Own> own;  // several groups of a kind, and several sites of a name, share a row
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
