#include "verify/run/global_values.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <limits>
#include <optional>
#include <string_view>

namespace verify {

namespace {

struct KindName {
  std::string_view published, plural, text;
};

// By PublishedKind.
constexpr KindName kKinds[] = {{"parameter", "parameters", "the parameter {} before step {}"},
                               {"value", "named values", "the value of {} in step {}"},
                               {"loss", "losses", "the loss '{}' of step {}"},
                               {"gradient", "gradients", "the gradient of {} in step {}"},
                               {"norm", "norms", "the {} in step {}"}};

std::optional<PublishedKind> kind_of(const std::string& published) {
  for (std::size_t i = 0; i < std::size(kKinds); ++i)
    if (kKinds[i].published == published) return static_cast<PublishedKind>(i);
  return std::nullopt;
}

/// Returns the number in the whole of an element of a block.
std::int64_t place_in_whole(const sim::GuestPlace& place, std::int64_t element) {
  std::int64_t number = 0, stride = 1;
  for (std::size_t i = place.whole.size(); i-- > 0;) {
    number += (place.offset[i] + element % place.shape[i]) * stride;
    element /= place.shape[i];
    stride *= place.whole[i];
  }
  return number;
}

Piece piece_of(int rank, const sim::Published& published, const sim::GuestPlace& place) {
  Piece piece{.rank = rank, .places = {}, .elements = {}};
  piece.elements.resize(published.values.size() / sizeof(double));
  if (piece.elements.empty()) return piece;
  std::memcpy(piece.elements.data(), published.values.data(), piece.elements.size() * sizeof(double));
  for (std::int64_t i = 0; i < std::ssize(piece.elements); ++i)
    piece.places.push_back(place_in_whole(place, place.begin + i));
  return piece;
}

/// Makes one number of a loss, which replicas have given as sums and weights.
void divide(GlobalValue& loss) {
  const std::vector<double> elements = loss.elements();
  double sum = 0, weight = 0;
  for (std::size_t i = 0; i + 1 < elements.size(); i += 2) {
    sum += elements[i];
    weight += elements[i + 1];
  }
  loss.whole = {1};
  const int rank = loss.pieces.front().rank;
  loss.pieces = {{.rank = rank, .places = {0}, .elements = {sum / weight}}};
}

void add(GlobalValues& all, int rank, const sim::Published& published, const sim::GuestPlace& place) {
  if (place.kind == "left out") all.left_out.insert(published.name);
  const std::optional<PublishedKind> kind = kind_of(place.kind);
  if (!kind || published.dtype != sim::DType::f64) return;
  GlobalValue& value = all.values[{place.step, *kind, published.name}];
  if (value.pieces.empty()) value.whole = place.whole;
  if (value.whole != place.whole) {
    value.disagreement = fmt::format("{} on rank {} and {} on rank {}", text_of_shape(value.whole),
                                     value.pieces.front().rank, text_of_shape(place.whole), rank);
    return;
  }
  const bool is_first_of_name = value.pieces.empty() && place.step == 0;
  value.pieces.push_back(piece_of(rank, published, place));
  if (is_first_of_name && *kind == PublishedKind::parameter) all.parameters.push_back(published.name);
  if (is_first_of_name && *kind == PublishedKind::value) all.named.push_back(published.name);
}

}  // namespace

std::string plural_of(PublishedKind kind) {
  return std::string(kKinds[static_cast<std::size_t>(kind)].plural);
}

std::string text_of(const ValueKey& key) {
  return fmt::format(fmt::runtime(kKinds[static_cast<std::size_t>(key.kind)].text), key.name, key.step);
}

std::string text_of_shape(const std::vector<std::int64_t>& whole) {
  return fmt::format("[{}]", fmt::join(whole, ", "));
}

double largest_of(const std::vector<double>& elements) {
  double most = 0;
  for (const double x : elements)
    if (std::isfinite(x)) most = std::max(most, std::abs(x));
  return most;
}

std::int64_t GlobalValue::count() const {
  std::int64_t elements = 1;
  for (const std::int64_t size : whole) elements *= size;
  return elements;
}

std::vector<double> GlobalValue::elements() const {
  std::vector<double> all(static_cast<std::size_t>(count()), std::numeric_limits<double>::quiet_NaN());
  for (const Piece& piece : pieces)
    for (std::size_t i = 0; i < piece.places.size(); ++i)
      all[static_cast<std::size_t>(piece.places[i])] = piece.elements[i];
  return all;
}

GlobalValues global_values(const sim::RunReport& report, const sim::GuestRecord& record) {
  GlobalValues all;
  for (std::size_t rank = 0; rank < record.places.size(); ++rank) {
    const std::vector<sim::Published>& published = report.ranks[rank].published;
    for (std::size_t i = 0; i < std::min(published.size(), record.places[rank].size()); ++i)
      add(all, report.ranks[rank].rank, published[i], record.places[rank][i]);
  }
  for (auto& [key, value] : all.values)
    if (key.kind == PublishedKind::loss) divide(value);
  return all;
}

}  // namespace verify
