#include "verify/run/wrong_norm.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <map>
#include <set>
#include <utility>
#include <vector>

namespace verify {

namespace {

constexpr double kExact = 1.0 / (1 << 28);
constexpr std::int64_t kMostTimes = 64;

/// The squares of gradients that have a name: what is right, and what each rank of the layout holds of them.
struct Squares {
  double right = 0;
  std::map<int, double> held;   // by rank
  std::map<int, double> owned;  // the same, where an element is that of the first rank that holds it
  double first_of_tp = 0;       // of the ranks whose place in tp is 0
};

std::string without_numbers(const std::string& name) { return name.substr(0, name.find('[')); }

double square_of(const std::vector<double>& elements) {
  double sum = 0;
  for (const double x : elements) sum += x * x;
  return sum;
}

std::int64_t size_of_tp(const NamesOfLayout& names) {
  for (const auto& [name, size] : names.sizes)
    if (name == "tp") return size;
  return 1;
}

/// Adds the squares of one gradient. Its pieces are in the order of their ranks.
void add(Squares& squares, const GlobalValue& right, const GlobalValue& got, std::int64_t tp) {
  const std::vector<double> elements = right.elements();
  squares.right += square_of(elements);
  std::vector<bool> seen(elements.size()), seen_of_first(elements.size());
  for (const Piece& piece : got.pieces) {
    squares.held[piece.rank] += square_of(piece.elements);
    double& owned = squares.owned[piece.rank];
    for (std::size_t i = 0; i < piece.places.size(); ++i) {
      const auto place = static_cast<std::size_t>(piece.places[i]);
      const double square = piece.elements[i] * piece.elements[i];
      if (!seen[place]) owned += square;
      if (piece.rank % tp == 0 && !seen_of_first[place]) squares.first_of_tp += square;
      seen[place] = true;
      if (piece.rank % tp == 0) seen_of_first[place] = true;
    }
  }
}

/// Returns the squares by name, or by names without the numbers of layers and experts.
std::map<std::string, Squares> squares_of(const SeenValue& value, bool has_numbers) {
  std::map<std::string, Squares> all;
  const std::int64_t tp = size_of_tp(value.names);
  for (const auto& [key, stored] : value.reference.values) {
    if (key.kind != PublishedKind::gradient || key.step != value.wrong.key.step) continue;
    const auto own = value.layout.values.find(key);
    if (own == value.layout.values.end() || own->second.whole != stored.whole) continue;
    add(all[has_numbers ? key.name : without_numbers(key.name)], value.reference.at(key),
        value.layout.at(key), tp);
  }
  return all;
}

/// Whether each wrong rank has the norm of its own gradients: those that it holds, or owns.
bool are_own(const SeenValue& value, const std::map<std::string, Squares>& all,
             std::map<int, double> Squares::*of_rank, double tolerance) {
  for (const Piece& piece : value.got.pieces) {
    if (!value.wrong.ranks.contains(piece.rank)) continue;
    double own = 0;
    for (const auto& [name, squares] : all)
      if (const auto found = (squares.*of_rank).find(piece.rank); found != (squares.*of_rank).end())
        own += found->second;
    if (!(std::abs(piece.elements.front() * piece.elements.front() - own) <= tolerance)) return false;
  }
  return true;
}

/// Returns what a norm does with the gradients of a name if its square has so much more than the right one.
std::string relation(const std::string& name, const Squares& squares, double more, double tolerance) {
  const double right = squares.right;
  if (right <= 8 * tolerance) return "";  // it says nothing; chosen
  const auto is = [&](double wanted) { return std::abs(more - wanted) <= tolerance; };
  if (is(-right)) return fmt::format("it lacks the gradients of {}", name);
  const double part = right - squares.first_of_tp;
  if (part > tolerance && squares.first_of_tp > tolerance && is(-part))
    return fmt::format("of the gradients of {} it has only the part of the first tp rank", name);
  const double times = std::round(more / right);
  if (times >= 1 && times < kMostTimes && is(times * right))
    return fmt::format("it counts the gradients of {} {} times", name, times + 1);
  return "";
}

/// Whether the norm is that of the gradients of all ranks, or of those of one replica of the model.
bool counts_copies(const SeenValue& value, const std::map<std::string, Squares>& all, double tolerance) {
  double of_ranks = 0;
  for (const auto& [name, squares] : all)
    for (const auto& [rank, square] : squares.held) of_ranks += square;
  double replicas = 1;
  for (const auto& [name, size] : value.names.sizes)
    if (name == "dp") replicas = static_cast<double>(size);
  const double found = value.got.pieces.front().elements.front() * value.got.pieces.front().elements.front();
  return std::abs(found - of_ranks) <= tolerance || std::abs(found - of_ranks / replicas) <= tolerance;
}

/// Returns what all wrong ranks do with the gradients of one name; "" if there is no such name.
std::string one_relation(const SeenValue& value, const std::map<std::string, Squares>& all, double right,
                         double tolerance) {
  std::set<std::string> relations;
  for (const Piece& piece : value.got.pieces) {
    if (!value.wrong.ranks.contains(piece.rank)) continue;
    const double more = piece.elements.front() * piece.elements.front() - right;
    std::set<std::string> of_piece;
    for (const auto& [name, squares] : all)
      if (const std::string said = relation(name, squares, more, tolerance); !said.empty())
        of_piece.insert(said);
    if (of_piece.size() != 1) return "";
    relations.merge(of_piece);
  }
  return relations.size() == 1 ? *relations.begin() : "";
}

}  // namespace

std::string explained_norm(const SeenValue& value) {
  if (value.wrong.key.kind != PublishedKind::norm || value.serial.size() != 1) return "";
  const double right = value.serial.front() * value.serial.front();
  const double tolerance = right * std::max(kExact, 4 * value.bound / std::abs(value.serial.front()));
  const std::map<std::string, Squares> all = squares_of(value, false);
  double sum = 0;
  for (const auto& [name, squares] : all) sum += squares.right;
  if (!(std::abs(sum - right) <= tolerance)) return "";
  for (const auto of_rank : {&Squares::held, &Squares::owned})
    if (are_own(value, all, of_rank, tolerance))
      return "each rank has the norm of the gradients that it holds itself";
  const std::string of_kind = one_relation(value, all, right, tolerance);
  if (!of_kind.empty()) return of_kind;
  if (counts_copies(value, all, tolerance))
    return "it counts the gradients that several ranks hold once for each of them";
  return one_relation(value, squares_of(value, true), right, tolerance);
}

}  // namespace verify
