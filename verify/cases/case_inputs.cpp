#include "verify/cases/case_inputs.h"

#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <limits>
#include <numeric>
#include <span>

#include "sim/base/copy_bytes.h"
#include "sim/base/error.h"
#include "sim/parallel/region.h"
#include "sim/tensor/checks.h"
#include "verify/cases/scalars.h"

namespace verify {

namespace {

/// The generator of all inputs of a case, on ranks and in references.
sim::KeyedRandom random_of(const CaseSetting& setting) { return sim::KeyedRandom(setting.seed); }

/// The most elements of an input, which is chosen: a reference keeps each as a number of 16 bytes or more.
constexpr std::int64_t kMostDrawn = std::int64_t{1} << 26;

/// Refuses an input that is too large, before there is memory for it.
void require_drawable(const CaseSetting& setting, const std::string& name, std::int64_t rows,
                      std::int64_t columns) {
  std::int64_t elements = 0;
  if (!__builtin_mul_overflow(rows, columns, &elements) && elements <= kMostDrawn) return;
  sim::refuse({.code = "case_declaration",
               .option = "dimensions()",
               .numbers = fmt::format("input '{}' is {} x {} elements (at {})", name, rows, columns,
                                      text_of(setting)),
               .rule = fmt::format("an input has at most {} elements at any setting", kMostDrawn),
               .hint = "a smaller most of its dimensions"});
}

/// Returns a tensor of keyed numbers, into which the setting's special value may have been put.
sim::Tensor drawn_on(sim::Device& device, const CaseSetting& setting, const std::string& name,
                     const sim::Shape& shape) {
  require_drawable(setting, name, 1, shape.count());
  const sim::KeyedRandom random = random_of(setting).named(name);
  sim::Tensor x = sim::keyed(device, setting.dtype, shape, random);
  if (setting.special == Special::none || x.count() == 0) return x;
  const sim::KeyedRandom special = random.named("special");
  if (special.below(0, 2) == 0) return x;
  if (setting.special == Special::large) return sim::scale(x, {10'000, 1});
  const std::int64_t at = special.below(1, static_cast<std::uint32_t>(x.count()));
  const sim::Tensor flat = x.reshaped({x.count()});
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const double value = setting.special == Special::nan        ? std::numeric_limits<double>::quiet_NaN()
                       : setting.special == Special::infinity ? kInfinity
                                                              : -kInfinity;
  const sim::Tensor element = sim::filled(device, setting.dtype, {1}, value);
  sim::Tensor to = flat.rows(at, at + 1);
  sim::copy(element, to);
  return x;
}

/// Returns a tensor of the drawing device, whose memory is that of this machine, as a matrix.
reference::Matrix<sim::Field> matrix_of_tensor(const reference::Number<sim::Field>&, const sim::Tensor& x) {
  reference::Matrix<sim::Field> result(x.shape()[0], x.shape()[1]);
  sim::copy_bytes(x.data(), reinterpret_cast<std::byte*>(result.data()), static_cast<std::size_t>(x.bytes()));
  return result;
}

/// The overload for float tensors.
template <typename Scalar>
reference::Matrix<Scalar> matrix_of_tensor(const reference::Number<Scalar>& number, const sim::Tensor& x) {
  reference::Matrix<Scalar> result(x.shape()[0], x.shape()[1]);
  with_scalar_of<double>(x.dtype(), [&](auto scalar) {
    for (Eigen::Index i = 0; i < result.size(); ++i)
      result.data()[i] = number.exact(value_at<decltype(scalar)>(x.data(), static_cast<std::size_t>(i)));
  });
  return result;
}

/// Applies `times` to every element of the part that the change names.
template <typename Scalar, typename Times>
void apply(const InputChange& change, reference::Matrix<Scalar>& x, const Times& times) {
  const bool of_rows = change.axis == InputChange::Axis::rows;
  const Eigen::Index lines = (of_rows ? x.rows() : x.cols()) / change.parts;
  const Eigen::Index across = of_rows ? x.cols() : x.rows();
  for (Eigen::Index i = change.part * lines; i < (change.part + 1) * lines; ++i) {
    for (Eigen::Index j = 0; j < across; ++j) {
      Scalar& element = of_rows ? x(i, j) : x(j, i);
      element = times(element);
    }
  }
}

/// Replaces each part by the one that is `shift` places after it; the first follows the last.
template <typename Scalar>
void shift_parts(const InputChange& change, reference::Matrix<Scalar>& x) {
  const bool of_rows = change.axis == InputChange::Axis::rows;
  const reference::Matrix<Scalar> before = x;
  const Eigen::Index all = of_rows ? x.rows() : x.cols();
  const Eigen::Index distance = all / change.parts * change.shift;
  for (Eigen::Index i = 0; i < all; ++i) {
    const Eigen::Index from = (i + distance) % all;
    if (of_rows) x.row(i) = before.row(from);
    if (!of_rows) x.col(i) = before.col(from);
  }
}

}  // namespace

std::shared_ptr<sim::CpuDevice> drawing_device() {
  static thread_local const auto device = std::make_shared<sim::CpuDevice>();
  return device;
}

std::vector<std::int64_t> drawn_ids(const CaseSetting& setting, const std::string& name, std::int64_t count,
                                    std::int64_t below) {
  const sim::KeyedRandom random = random_of(setting).named(name);
  std::vector<std::int64_t> ids(static_cast<std::size_t>(count));
  std::array<std::uint64_t, 64> words;
  for (std::size_t first = 0; first < ids.size(); first += words.size()) {
    const auto some = std::span(words).first(std::min(words.size(), ids.size() - first));
    std::iota(some.begin(), some.end(), first);
    random.bits(some);
    for (std::size_t i = 0; i < some.size(); ++i)
      ids[first + i] = sim::KeyedRandom::below_of(some[i], static_cast<std::uint32_t>(below));
  }
  return ids;
}

sim::Tensor drawn(sim::Rank& rank, const CaseSetting& setting, const std::string& name,
                  const sim::Shape& shape) {
  return drawn_on(rank.device, setting, name, shape);
}

sim::Tensor drawn_elements(sim::Rank& rank, const CaseSetting& setting, const std::string& name,
                           std::int64_t whole, std::int64_t first, std::int64_t count) {
  if (setting.special != Special::none)
    return drawn_on(rank.device, setting, name, {1, whole})
        .flat()
        .rows(first, first + count)
        .reshaped({1, count});
  return sim::keyed(rank.device, setting.dtype, {1, count}, random_of(setting).named(name), first);
}

sim::Tensor drawn_own_rows(sim::Rank& rank, const CaseSetting& setting, const std::string& name,
                           std::int64_t rows, std::int64_t columns) {
  require_drawable(setting, name, rows, columns);
  sim::Communicator& tp = rank.groups.get("tp");
  if (setting.special != Special::none)
    return sim::own_rows(drawn_on(rank.device, setting, name, {rows, columns}), tp);
  const std::int64_t own = rows / tp.size();
  return sim::keyed(rank.device, setting.dtype, {own, columns}, random_of(setting).named(name),
                    tp.rank() * own * columns);
}

sim::Tensor drawn_own_columns(sim::Rank& rank, const CaseSetting& setting, const std::string& name,
                              std::int64_t rows, std::int64_t columns) {
  require_drawable(setting, name, rows, columns);
  sim::Communicator& tp = rank.groups.get("tp");
  if (setting.special != Special::none)
    return sim::own_columns(drawn_on(rank.device, setting, name, {rows, columns}), tp);
  const std::int64_t own = columns / tp.size();
  return sim::keyed(rank.device, setting.dtype, {rows, own}, random_of(setting).named(name), tp.rank() * own,
                    columns);
}

sim::Tensor tensor_of_ids(sim::Rank& rank, const std::vector<std::int64_t>& ids) {
  const std::vector<std::int32_t> narrow(ids.begin(), ids.end());
  return sim::from_host(rank.device, sim::DType::i32, {std::ssize(narrow)}, std::as_bytes(std::span(narrow)));
}

template <typename Scalar>
const std::string& Inputs<Scalar>::drawn_as(const std::string& name) const {
  if (change_ == nullptr) return name;
  const auto other = change_->drawn_as.find(name);
  return other == change_->drawn_as.end() ? name : other->second;
}

template <typename Scalar>
std::vector<std::int64_t> Inputs<Scalar>::ids(const std::string& name, std::vector<std::int64_t> own) const {
  if (seen_ != nullptr) seen_->ids[name] = own;
  if (change_ == nullptr) return own;
  const auto other = change_->ids.find(name);
  return other == change_->ids.end() ? own : other->second;
}

template <typename Scalar>
reference::Matrix<Scalar> Inputs<Scalar>::taken(const std::string& name,
                                                reference::Matrix<Scalar> values) const {
  if (seen_ != nullptr) seen_->matrices[name] = values;
  if (change_ != nullptr && change_->names.contains(name)) {
    const Scalar factor = number_.of(change_->factor, 1);
    if (change_->factor != 1) apply(*change_, values, [&](const Scalar& x) { return factor * x; });
    if (change_->shift != 0) shift_parts(*change_, values);
  }
  return values;
}

template <typename Scalar>
reference::Matrix<Scalar> Inputs<Scalar>::matrix(const std::string& name, std::int64_t rows,
                                                 std::int64_t columns) const {
  return taken(name,
               matrix_of_tensor(number_, drawn_on(*device_, setting_, drawn_as(name), {rows, columns})));
}

template <typename Scalar>
reference::Matrix<Scalar> Inputs<Scalar>::parameter(const std::string& name, std::int64_t rows,
                                                    std::int64_t columns, sim::Ratio scale) const {
  require_drawable(setting_, name, rows, columns);
  sim::Tensor values =
      sim::keyed(*device_, setting_.dtype, {rows, columns}, random_of(setting_).named(drawn_as(name)));
  if (scale.numerator != scale.denominator) values = sim::scale(values, scale);
  return taken(name, matrix_of_tensor(number_, values));
}

template <typename Scalar>
reference::Matrix<Scalar> Inputs<Scalar>::dropout(const std::string& name, std::int64_t rows,
                                                  std::int64_t columns, sim::Ratio probability,
                                                  int part) const {
  const sim::KeyedRandom shared = random_of(setting_).named("dropout").named(name);
  const sim::KeyedRandom stream = part < 0 ? shared : shared.named(fmt::format("tp rank {}", part));
  const sim::KeyedRandom random = stream.named(fmt::format("pass {}", setting_["pass"]));
  const double dropped =
      static_cast<double>(probability.numerator) / static_cast<double>(probability.denominator);
  const Scalar kept = number_.of(probability.denominator, probability.denominator - probability.numerator);
  reference::Matrix<Scalar> result(rows, columns);
  for (Eigen::Index i = 0; i < result.size(); ++i) {
    result.data()[i] = random.uniform(static_cast<std::uint64_t>(i)) < dropped ? number_.of(0, 1) : kept;
  }
  return result;
}

template class Inputs<sim::Field>;
template class Inputs<reference::Bounded>;
template class Inputs<reference::Perturbed>;

}  // namespace verify
