#include "verify/report/bandwidth_table.h"

#include <fmt/format.h>
#include <string_view>

#include "verify/output/json.h"
#include "verify/output/text_table.h"

namespace verify {

namespace {

constexpr double kMicro = 1'000'000;
constexpr double kGiga = 1'000'000'000;

std::string_view redop_of(const BandwidthRow& row) {
  return sim::has_reduce_op(row.operation) ? sim::name_of(sim::ReduceOp::sum) : "none";
}

bool has_time(const BandwidthRow& row) { return row.seconds.has_value() && *row.seconds > 0; }

std::optional<double> microseconds(const BandwidthRow& row) {
  return has_time(row) ? std::optional(*row.seconds * kMicro) : std::nullopt;
}

std::string number_text(std::optional<double> number) {
  return number ? fmt::format("{:.2f}", *number) : "-";
}

std::string rows_text(const BandwidthRows& rows, const std::string& indent) {
  TextTable table({"kind", ">ranks", "operation", ">size", ">count", "type", "redop", ">root", ">time",
                   ">algbw", ">busbw", ">#wrong"});
  table.row("", "", "", "(B)", "(elements)", "", "", "", "(us)", "(GB/s)", "(GB/s)", "");
  for (const BandwidthRow& row : rows)
    table.row(row.kind, row.ranks, sim::name_of(row.operation), row.bytes, row.count, sim::name_of(row.dtype),
              redop_of(row), row.root, number_text(microseconds(row)), number_text(algorithm_bandwidth(row)),
              number_text(bus_bandwidth(row)), row.wrong);
  return table.text(indent);
}

}  // namespace

double bus_factor(sim::Operation operation, int ranks) {
  const double others = static_cast<double>(ranks - 1) / ranks;
  switch (operation) {
    case sim::Operation::all_reduce:
      return 2 * others;
    case sim::Operation::all_gather:
    case sim::Operation::reduce_scatter:
    case sim::Operation::all_to_all:
      return others;
    default:
      return 1;
  }
}

std::optional<double> algorithm_bandwidth(const BandwidthRow& row) {
  if (!has_time(row)) return std::nullopt;
  return static_cast<double>(row.bytes) / *row.seconds / kGiga;
}

std::optional<double> bus_bandwidth(const BandwidthRow& row) {
  const std::optional<double> bandwidth = algorithm_bandwidth(row);
  if (!bandwidth) return std::nullopt;
  return *bandwidth * bus_factor(row.operation, row.ranks);
}

std::optional<double> average_bus_bandwidth(const BandwidthRows& rows) {
  double sum = 0;
  int measured = 0;
  for (const BandwidthRow& row : rows) {
    const std::optional<double> bandwidth = bus_bandwidth(row);
    if (!bandwidth) continue;
    sum += *bandwidth;
    ++measured;
  }
  return measured > 0 ? std::optional(sum / measured) : std::nullopt;
}

std::string bandwidth_text(const BandwidthRows& rows, const std::string& indent) {
  return fmt::format("{0}{1}wrong elements    : {2}\n{1}avg bus bandwidth : {3} GB/s\n",
                     rows_text(rows, indent), indent, wrong_elements(rows),
                     number_text(average_bus_bandwidth(rows)));
}

Json bandwidth_json(const BandwidthRows& rows) {
  const auto row_json = [](const BandwidthRow& row) {
    return Json{{"kind", row.kind},
                {"group", row.group},
                {"ranks", row.ranks},
                {"operation", sim::name_of(row.operation)},
                {"size", row.bytes},
                {"count", row.count},
                {"type", sim::name_of(row.dtype)},
                {"redop", redop_of(row)},
                {"root", row.root},
                {"time", microseconds(row)},
                {"algbw", algorithm_bandwidth(row)},
                {"busbw", bus_bandwidth(row)},
                {"wrong", row.wrong}};
  };
  return {{"results", json_list(rows, row_json)},
          {"wrong", wrong_elements(rows)},
          {"average_bus_bandwidth", average_bus_bandwidth(rows)}};
}

}  // namespace verify
