#include "verify/run/global_values.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <iterator>
#include <limits>
#include <optional>
#include <string_view>

#include "sim/base/printable_text.h"

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
                               {"norm", "norms", "the {} in step {}"},
                               {"state", "states of optimizers", "the {} after step {}"}};

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

Piece piece_of(const StoredValue::Part& part) {
  Piece piece{.rank = part.rank, .places = {}, .elements = part.read()};
  for (std::int64_t i = 0; i < std::ssize(piece.elements); ++i)
    piece.places.push_back(place_in_whole(part.place, part.place.begin + i));
  return piece;
}

/// Makes one number of a loss, which replicas have given as sums and weights.
GlobalValue divided(const GlobalValue& loss) {
  const std::vector<double> elements = loss.elements();
  double sum = 0, weight = 0;
  for (std::size_t i = 0; i + 1 < elements.size(); i += 2) {
    sum += elements[i];
    weight += elements[i + 1];
  }
  return {.whole = {1}, .pieces = {{loss.pieces.front().rank, {0}, {sum / weight}}}};
}

std::int64_t product_of(const std::vector<std::int64_t>& whole) {
  std::int64_t elements = 1;
  for (const std::int64_t size : whole) elements *= size;
  return elements;
}

std::vector<double> doubles_of(const std::vector<std::byte>& values) {
  std::vector<double> elements(values.size() / sizeof(double));
  if (!elements.empty()) std::memcpy(elements.data(), values.data(), elements.size() * sizeof(double));
  return elements;
}

}  // namespace

std::string plural_of(PublishedKind kind) {
  return std::string(kKinds[static_cast<std::size_t>(kind)].plural);
}

std::string text_of(const ValueKey& key) {
  return fmt::format(fmt::runtime(kKinds[static_cast<std::size_t>(key.kind)].text),
                     sim::printable_text(key.name), key.step);
}

NamesOfState names_of_state(const ValueKey& key) {
  static constexpr std::string_view kOf = " of ";
  const std::size_t end = key.kind == PublishedKind::state ? key.name.find(kOf) : std::string::npos;
  if (end == std::string::npos) return {.state = "", .parameter = key.name};
  return {.state = key.name.substr(0, end), .parameter = key.name.substr(end + kOf.size())};
}

bool has_squares(const ValueKey& key) {
  const std::string state = names_of_state(key).state;
  return state == "sum" || state.find("sq") != std::string::npos;
}

std::vector<std::string> parameters_beside(const GlobalValues& some, const GlobalValues& others) {
  const std::set<std::string> known(others.parameters.begin(), others.parameters.end());
  std::vector<std::string> beside;
  for (const std::string& name : some.parameters)
    if (!known.contains(name)) beside.push_back(name);
  return beside;
}

std::set<std::string> not_compared(const GlobalValues& run, const GlobalValues& reference) {
  std::set<std::string> names = reference.left_out, states;
  names.insert(run.left_out.begin(), run.left_out.end());
  for (const std::string& name : parameters_beside(run, reference)) names.insert(name);
  std::ranges::set_symmetric_difference(run.states, reference.states, std::inserter(states, states.end()));
  for (const std::string& state : states) names.insert(state + " of optimizers");
  return names;
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

std::vector<double> GlobalValue::elements() const {
  std::vector<double> all(static_cast<std::size_t>(product_of(whole)),
                          std::numeric_limits<double>::quiet_NaN());
  for (const Piece& piece : pieces)
    for (std::size_t i = 0; i < piece.places.size(); ++i)
      all[static_cast<std::size_t>(piece.places[i])] = piece.elements[i];
  return all;
}

std::int64_t StoredValue::count() const { return product_of(whole); }

void GlobalValues::add(int rank, const std::string& name, const sim::GuestPlace& place, ReadElements read) {
  if (place.kind == "left out") left_out.insert(name);
  const std::optional<PublishedKind> kind = kind_of(place.kind);
  if (!kind) return;
  StoredValue& value = values[{place.step, *kind, name}];
  if (value.parts.empty()) {
    value.whole = *kind == PublishedKind::loss ? std::vector<std::int64_t>{1} : place.whole;
    if (*kind == PublishedKind::parameter && place.step == 0) parameters.push_back(name);
    if (*kind == PublishedKind::value && place.step == 0) named.push_back(name);
    if (*kind == PublishedKind::state) states.insert(names_of_state({place.step, *kind, name}).state);
  } else if (const StoredValue::Part& first = value.parts.front(); first.place.whole != place.whole) {
    value.disagreement = fmt::format("{} on rank {} and {} on rank {}", text_of_shape(first.place.whole),
                                     first.rank, text_of_shape(place.whole), rank);
    return;
  }
  value.parts.push_back({rank, place, std::move(read)});
}

GlobalValue GlobalValues::at(const ValueKey& key) const {
  const StoredValue& stored = values.at(key);
  GlobalValue value{.whole = stored.parts.front().place.whole, .pieces = {}};
  for (const StoredValue::Part& part : stored.parts) value.pieces.push_back(piece_of(part));
  return key.kind == PublishedKind::loss ? divided(value) : value;
}

std::int64_t GlobalValues::steps() const { return values.empty() ? 0 : values.rbegin()->first.step + 1; }

ReadElements reading_of(const sim::Published& published) {
  return [&published] { return doubles_of(published.values); };
}

GlobalValues global_values(const sim::RunReport& report, const sim::GuestRecord& record) {
  GlobalValues all;
  for (std::size_t rank = 0; rank < record.places.size(); ++rank) {
    const std::vector<sim::Published>& published = report.ranks[rank].published;
    for (std::size_t i = 0; i < std::min(published.size(), record.places[rank].size()); ++i) {
      const sim::Published& each = published[i];
      if (each.dtype == sim::DType::f64)
        all.add(report.ranks[rank].rank, each.name, record.places[rank][i], reading_of(each));
    }
  }
  return all;
}

}  // namespace verify
