#include "sim/comm/ledger.h"

#include <algorithm>

namespace sim {

void Ledger::add(std::span<const CallRecord> calls) {
  struct Own {
    LedgerRow* row;
    std::int64_t bytes;
  };
  std::vector<Own> own;  // the rows of this rank's calls: there are few
  const CallRecord* previous = nullptr;
  Own* latest = nullptr;
  for (const CallRecord& call : calls) {
    // Programs call in loops, so this call often belongs to the same row as the call before it.
    const bool same = previous != nullptr && previous->group == call.group &&
                      previous->site.name == call.site.name && previous->operation == call.operation &&
                      previous->dtype == call.dtype;
    if (!same) {
      LedgerRow* row = &rows_[{call.group->kind, call.site.name, call.operation, call.dtype}];
      const auto found = std::find_if(own.begin(), own.end(), [&](const Own& o) { return o.row == row; });
      latest = found != own.end() ? &*found : &own.emplace_back(Own{row, 0});
    }
    previous = &call;
    ++latest->row->calls;
    latest->row->elements += call.count;
    latest->row->bytes_inside += call.bytes_inside;
    latest->row->bytes_across += call.bytes_across;
    latest->bytes += call.bytes_inside + call.bytes_across;
  }
  for (const Own& row : own) {
    ++row.row->ranks;
    row.row->most_bytes = std::max(row.row->most_bytes, row.bytes);
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
