#pragma once

/// What the tests of published values have in common.

#include <cstring>
#include <rapidcheck.h>
#include <string>
#include <vector>

#include "verify/run/global_values.h"

namespace test {

/// What ranks have published, as a run keeps it.
struct Publications {
  sim::RunReport report;
  sim::GuestRecord record;

  explicit Publications(int ranks) {
    for (int rank = 0; rank < ranks; ++rank)
      report.ranks.push_back({.rank = rank, .published = {}, .calls = {}});
    record.places.resize(static_cast<std::size_t>(ranks));
  }
  void add(int rank, const std::string& name, const sim::GuestPlace& place,
           const std::vector<double>& elements) {
    sim::Published published{.name = name, .dtype = sim::DType::f64, .shape = {}, .values = {}};
    published.values.resize(elements.size() * sizeof(double));
    std::memcpy(published.values.data(), elements.data(), published.values.size());
    report.ranks[static_cast<std::size_t>(rank)].published.push_back(std::move(published));
    record.places[static_cast<std::size_t>(rank)].push_back(place);
  }
  verify::GlobalValues values() const { return verify::global_values(report, record); }
};

inline std::vector<double> drawn_elements(std::int64_t count) {
  std::vector<double> elements;
  for (std::int64_t i = 0; i < count; ++i)
    elements.push_back(static_cast<double>(*rc::gen::inRange(1, 1000)) / 64);
  return elements;
}

}  // namespace test
