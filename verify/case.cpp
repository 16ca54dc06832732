#include "verify/case.h"

#include <algorithm>
#include <fmt/format.h>
#include <span>

#include "sim/tensor/cpu_device.h"
#include "verify/scalars.h"

namespace verify {

namespace {

/// Of all inputs of a case, on ranks and in references.
sim::KeyedRandom random_of(const CaseSetting& setting) { return sim::KeyedRandom(setting.seed); }

std::vector<std::byte> bytes_of(const CaseSetting& setting, const std::string& name, std::int64_t rows,
                                std::int64_t columns, sim::Ratio scale) {
  sim::CpuDevice device;
  const sim::Tensor drawn_values =
      sim::keyed(device, setting.dtype, {rows, columns}, random_of(setting).named(name));
  return sim::host_bytes(sim::scale(drawn_values, scale));
}

}  // namespace

std::string text_of(const CaseSetting& setting) {
  std::string text = fmt::format("tp {}, {}, seed {}", setting.tp, sim::name_of(setting.dtype), setting.seed);
  for (const auto& [name, value] : setting.dimensions) text += fmt::format(", {} {}", name, value);
  return text;
}

std::vector<std::int64_t> drawn_ids(const CaseSetting& setting, const std::string& name, std::int64_t count,
                                    std::int64_t below) {
  const sim::KeyedRandom random = random_of(setting).named(name);
  std::vector<std::int64_t> ids(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = random.below(i, static_cast<std::uint32_t>(below));
  return ids;
}

sim::Tensor drawn(sim::Rank& rank, const CaseSetting& setting, const std::string& name,
                  const sim::Shape& shape) {
  return sim::keyed(rank.device, setting.dtype, shape, rank.random.named(name));
}

sim::Tensor tensor_of_ids(sim::Rank& rank, const std::vector<std::int64_t>& ids) {
  const std::vector<std::int32_t> narrow(ids.begin(), ids.end());
  return sim::from_host(rank.device, sim::DType::i32, {std::ssize(narrow)}, std::as_bytes(std::span(narrow)));
}

template <>
reference::Matrix<reference::Bounded> Inputs<reference::Bounded>::matrix(const std::string& name,
                                                                         std::int64_t rows,
                                                                         std::int64_t columns,
                                                                         sim::Ratio scale) const {
  const std::vector<double> values =
      doubles_of(setting_.dtype, bytes_of(setting_, name, rows, columns, scale));
  reference::Matrix<reference::Bounded> result(rows, columns);
  std::transform(values.begin(), values.end(), result.data(), [&](double x) { return number_.exact(x); });
  return result;
}

template <>
reference::Matrix<sim::Field> Inputs<sim::Field>::matrix(const std::string& name, std::int64_t rows,
                                                         std::int64_t columns, sim::Ratio scale) const {
  const std::vector<sim::Field> values = fields_of(bytes_of(setting_, name, rows, columns, scale));
  reference::Matrix<sim::Field> result(rows, columns);
  std::copy(values.begin(), values.end(), result.data());
  return result;
}

const Case* find_case(const std::string& name) {
  const auto& cases = all_cases();
  const auto found =
      std::find_if(cases.begin(), cases.end(), [&](const auto& c) { return c->name() == name; });
  return found == cases.end() ? nullptr : found->get();
}

}  // namespace verify
