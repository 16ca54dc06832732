#include "verify/cases/scalars.h"

#include <cstring>

namespace verify {

namespace {

template <typename Element, typename Convert>
std::vector<double> converted(const std::vector<std::byte>& bytes, const Convert& convert) {
  std::vector<double> values(bytes.size() / sizeof(Element));
  for (std::size_t i = 0; i < values.size(); ++i) {
    Element element;
    std::memcpy(&element, bytes.data() + i * sizeof element, sizeof element);
    values[i] = convert(element);
  }
  return values;
}

}  // namespace

std::vector<double> doubles_of(sim::DType dtype, const std::vector<std::byte>& bytes) {
  if (dtype == sim::DType::f64) return converted<double>(bytes, [](double x) { return x; });
  if (dtype == sim::DType::f32) return converted<float>(bytes, [](float x) { return double{x}; });
  return converted<sim::bfloat16>(bytes, [](sim::bfloat16 x) { return double{sim::to_float(x)}; });
}

std::vector<sim::Field> fields_of(const std::vector<std::byte>& bytes) {
  std::vector<sim::Field> values(bytes.size() / sizeof(sim::Field));
  if (!bytes.empty()) std::memcpy(static_cast<void*>(values.data()), bytes.data(), bytes.size());
  return values;
}

}  // namespace verify
