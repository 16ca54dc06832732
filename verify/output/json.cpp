#include "verify/output/json.h"

#include <algorithm>
#include <charconv>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <system_error>

#include "sim/base/check.h"

namespace verify {

struct Json::Node {
  enum class Kind { plain, text, array, object };
  Kind kind;
  std::string text = {};                // of a text; of a number or a truth value as it is written
  std::vector<Json> elements = {};      // array, and the values of an object's members
  std::vector<std::string> names = {};  // of an object's members

  std::ptrdiff_t place_of(std::string_view name) const {
    return std::ranges::find(names, name) - names.begin();
  }
};

namespace {

using Kind = Json::Node::Kind;

std::shared_ptr<Json::Node> make(Json::Node node) { return std::make_shared<Json::Node>(std::move(node)); }

std::shared_ptr<Json::Node> plain(std::string text) {
  return make({.kind = Kind::plain, .text = std::move(text)});
}

bool is_pair(const Json& value) { return value.is_array() && value.size() == 2 && value[0].is_text(); }

std::optional<std::int64_t> whole_number(const std::string& text) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

}  // namespace

Json::Json() = default;
Json::Json(const Json& other) = default;
Json::Json(Json&& other) noexcept = default;
Json& Json::operator=(const Json& other) = default;
Json& Json::operator=(Json&& other) noexcept = default;
Json::~Json() = default;
Json::Json(std::nullptr_t) {}
Json::Json(bool value) : node_(plain(value ? "true" : "false")) {}
Json::Json(long long value) : node_(plain(std::to_string(value))) {}
Json::Json(unsigned long long value) : node_(plain(std::to_string(value))) {}
Json::Json(double value) : node_(plain(nlohmann::json(value).dump())) {}
Json::Json(std::string_view text) : node_(make({.kind = Kind::text, .text = std::string(text)})) {}
Json::Json(std::vector<Json> elements)
    : node_(make({.kind = Kind::array, .elements = std::move(elements)})) {}

Json::Json(std::initializer_list<Json> values) : Json(array(values)) {
  if (!std::ranges::all_of(values, is_pair)) return;
  *this = object();
  for (const Json& pair : values) member(pair[0].text()) = pair[1];
}

Json Json::array(std::initializer_list<Json> values) { return Json(std::vector<Json>(values)); }
Json Json::object() { return Json(make({.kind = Kind::object})); }

bool Json::is_array() const { return node_ != nullptr && node_->kind == Kind::array; }
bool Json::is_object() const { return node_ != nullptr && node_->kind == Kind::object; }
bool Json::is_text() const { return node_ != nullptr && node_->kind == Kind::text; }
bool Json::is_integer() const {
  return node_ != nullptr && node_->kind == Kind::plain && whole_number(node_->text);
}

std::size_t Json::size() const { return node_ == nullptr ? 0 : node_->elements.size(); }

std::int64_t Json::integer() const {
  SIM_CHECK(is_integer());
  return *whole_number(node_->text);
}

const std::string& Json::text() const {
  SIM_CHECK(is_text());
  return node_->text;
}

const std::vector<Json>& Json::elements() const {
  SIM_CHECK(is_array() || is_object());
  return node_->elements;
}

const Json& Json::operator[](std::size_t index) const {
  SIM_CHECK(index < size());
  return node_->elements[index];
}

const std::vector<std::string>& Json::names() const {
  SIM_CHECK(is_object());
  return node_->names;
}

const Json* Json::find(std::string_view name) const {
  if (!is_object()) return nullptr;
  const auto place = static_cast<std::size_t>(node_->place_of(name));
  return place == node_->names.size() ? nullptr : &node_->elements[place];
}

/// Returns the node for a change. If other values share it, this value gets a copy of its own first.
Json::Node& Json::own() {
  if (node_.use_count() > 1) node_ = make(*node_);
  return *node_;
}

void Json::push_back(Json element) {
  SIM_CHECK(is_array());
  own().elements.push_back(std::move(element));
}

Json& Json::member(std::string_view name) {
  if (node_ == nullptr) *this = object();
  SIM_CHECK(is_object());
  Node& node = own();
  const auto place = static_cast<std::size_t>(node.place_of(name));
  if (place == node.names.size()) {
    node.names.emplace_back(name);
    node.elements.emplace_back();
  }
  return node.elements[place];
}

// ---- text

namespace {

void append_text(const std::string& text, std::string& out) {
  out += nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace

void Json::append(std::string& out) const {
  if (node_ == nullptr) {
    out += "null";
  } else if (node_->kind == Kind::plain) {
    out += node_->text;
  } else if (node_->kind == Kind::text) {
    append_text(node_->text, out);
  } else {
    append_elements(out);
  }
}

void Json::append_elements(std::string& out) const {
  const bool is_named = is_object();
  out += is_named ? '{' : '[';
  for (std::size_t i = 0; i < size(); ++i) {
    if (i > 0) out += ',';
    if (is_named) {
      append_text(node_->names[i], out);
      out += ':';
    }
    node_->elements[i].append(out);
  }
  out += is_named ? '}' : ']';
}

std::string Json::dump() const {
  std::string out;
  append(out);
  return out;
}

std::string one_line(const Json& document) { return document.dump() + "\n"; }

namespace {

constexpr std::size_t kMostMembers = 20'000;  // each is looked for among those before it

/// Builds a value from what the library reads, and stops where it is nested too deep.
class Builder : public nlohmann::json_sax<nlohmann::json> {
 public:
  Json whole;
  std::string problem;

  bool null() override { return add({}); }
  bool boolean(bool value) override { return add(value); }
  bool number_integer(number_integer_t value) override { return add(static_cast<long long>(value)); }
  bool number_unsigned(number_unsigned_t value) override {
    return add(static_cast<unsigned long long>(value));
  }
  bool number_float(number_float_t value, const string_t&) override { return add(value); }
  bool string(string_t& value) override { return add(value); }
  bool binary(binary_t&) override { return false; }  // no JSON text has one
  bool start_object(std::size_t) override { return open(Json::object()); }
  bool start_array(std::size_t) override { return open(Json::array()); }
  bool key(string_t& name) override {
    names_.back() = std::move(name);
    if (open_.back().size() < kMostMembers) return true;
    problem = fmt::format("an object has more than {} members", kMostMembers);
    return false;
  }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool parse_error(std::size_t, const std::string&, const nlohmann::json::exception& error) override {
    problem = error.what();
    return false;
  }

 private:
  bool add(Json value) {
    if (open_.empty()) {
      whole = std::move(value);
    } else if (open_.back().is_array()) {
      open_.back().push_back(std::move(value));
    } else {
      open_.back()[names_.back()] = std::move(value);
    }
    return true;
  }
  bool open(Json value) {
    open_.push_back(std::move(value));
    names_.emplace_back();
    if (std::ssize(open_) <= kMostJsonDepth) return true;
    problem = fmt::format("it is nested deeper than {} levels", kMostJsonDepth);
    return false;
  }
  bool close() {
    Json value = std::move(open_.back());
    open_.pop_back();
    names_.pop_back();
    return add(std::move(value));
  }

  std::vector<Json> open_;
  std::vector<std::string> names_;  // of the member that each open value waits for
};

}  // namespace

Json parse_json(std::string_view text) {
  Builder builder;
  if (nlohmann::json::sax_parse(text, &builder)) return std::move(builder.whole);
  throw std::runtime_error(builder.problem);
}

std::optional<Json> parsed_json(std::string_view text) {
  Builder builder;
  return nlohmann::json::sax_parse(text, &builder) ? std::optional(std::move(builder.whole)) : std::nullopt;
}

}  // namespace verify
