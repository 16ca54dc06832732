#pragma once

/// A JSON document as a value. All rooms of verify build and read JSON through this class. Only json.cpp
/// includes nlohmann-json, which parses and escapes text, because its templates cost every file that includes
/// them seconds of compiling. (sim/optimizer reads and writes checkpoints with the library itself.)
///
///   Json row = {{"rank", 3}, {"calls", Json::array()}};
///   row["calls"].push_back({"all_reduce", 16});
///   out << one_line(row);
///
/// Shapes  A braced list is an object when each of its elements is a pair that begins with a text, and else
///         an array. Members keep the order in which they were added. Copies share what they hold until one
///         of them is changed.
/// Errors  A text that is not JSON, is nested deeper than kMostJsonDepth, or has an object of more than
///         20,000 members, throws an exception that says what is wrong with it.
/// Exact   Numbers are written so that reading them gives the same value; a NaN and an infinity are written
///         as null.

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace verify {

inline constexpr int kMostJsonDepth = 64;

class Json {
 public:
  // What makes a node is not inline, because a document calls it hundreds of times.
  Json();  // null
  Json(const Json& other);
  Json(Json&& other) noexcept;
  Json& operator=(const Json& other);
  Json& operator=(Json&& other) noexcept;
  ~Json();
  Json(std::nullptr_t);
  Json(bool value);
  Json(long long value);
  Json(unsigned long long value);
  Json(double value);
  Json(std::string_view text);
  Json(std::vector<Json> elements);
  Json(std::initializer_list<Json> values);
  template <std::signed_integral Number>
  Json(Number value) : Json(static_cast<long long>(value)) {}
  template <std::unsigned_integral Number>
  Json(Number value) : Json(static_cast<unsigned long long>(value)) {}
  template <std::convertible_to<std::string_view> Text>
  Json(const Text& text) : Json(std::string_view(text)) {}
  template <typename Value>
  Json(const std::vector<Value>& values) : Json(std::vector<Json>(values.begin(), values.end())) {}
  /// Null stands for no value.
  template <typename Value>
  Json(const std::optional<Value>& value) : Json(value ? Json(*value) : Json()) {}
  static Json array(std::initializer_list<Json> values = {});
  static Json object();

  bool is_null() const { return node_ == nullptr; }
  bool is_array() const;
  bool is_object() const;
  bool is_text() const;
  /// Whether this is a whole number that fits into 64 bits with a sign.
  bool is_integer() const;

  /// Returns the number of elements or members; 0 for any other kind of value.
  std::size_t size() const;
  bool empty() const { return size() == 0; }
  /// These return what a value of their kind holds; a value of another kind breaks an invariant (SIM_CHECK).
  std::int64_t integer() const;
  const std::string& text() const;
  const Json& operator[](std::size_t index) const;
  const std::vector<Json>& elements() const;
  /// Returns the names of an object's members, in the order of elements().
  const std::vector<std::string>& names() const;
  /// Returns the member of this name; null if there is none, or if this is not an object.
  const Json* find(std::string_view name) const;

  void push_back(Json element);
  /// Returns the member of this name, which is added as null if there is none.
  template <std::convertible_to<std::string_view> Name>
  Json& operator[](const Name& name) {
    return member(name);
  }

  /// Returns the text in one line. Bytes that are not UTF-8 (in a file name or an option) become replacement
  /// characters.
  std::string dump() const;

  struct Node;

 private:
  explicit Json(std::shared_ptr<Node> node) : node_(std::move(node)) {}
  Node& own();
  Json& member(std::string_view name);
  void append(std::string& out) const;
  void append_elements(std::string& out) const;

  std::shared_ptr<Node> node_;  // null stands for null
};

/// Returns the list of what `made` returns for each element.
template <typename Elements, typename Made>
Json json_list(const Elements& elements, const Made& made) {
  Json list = Json::array();
  for (const auto& element : elements) list.push_back(made(element));
  return list;
}

/// Returns the dump with a newline.
std::string one_line(const Json& document);

/// Parses a text. Throws an exception that says what is wrong with it.
Json parse_json(std::string_view text);
/// Parses a text; returns nothing if it is not JSON.
std::optional<Json> parsed_json(std::string_view text);

}  // namespace verify
