#include "verify/report/ledger_by_kind.h"

namespace verify {

std::vector<sim::LedgerRow> ledger_by_kind(const std::vector<sim::LedgerRow>& ledger) {
  std::vector<sim::LedgerRow> sums;
  for (const sim::LedgerRow& row : ledger) {
    if (sums.empty() || sums.back().kind != row.kind) sums.push_back({.kind = row.kind});
    sim::LedgerRow& sum = sums.back();
    sum.calls += row.calls;
    sum.elements += row.elements;
    sum.bytes_inside += row.bytes_inside;
    sum.bytes_across += row.bytes_across;
    sum.most_bytes += row.most_bytes;
  }
  return sums;
}

}  // namespace verify
