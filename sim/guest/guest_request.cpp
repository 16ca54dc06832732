#include "sim/guest/guest_request.h"

#include <algorithm>
#include <fmt/format.h>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>
#include <span>
#include <string_view>
#include <utility>

#include "sim/base/error.h"

namespace sim {

namespace {

using nlohmann::json;

constexpr std::string_view kWishes[] = {"call",    "batch", "wait", "new_group",
                                        "publish", "tell",  "end",  "raised"};
constexpr std::string_view kReduceOps[] = {"sum", "max", "min", "product", "average"};
constexpr std::int64_t kMostElements = std::int64_t{1} << 40;
constexpr std::int64_t kMostOfWhole = std::int64_t{1} << 28;  // elements of a value that is put together

/// Reads the members of one object, and refuses what is not of their kind.
class Members {
 public:
  explicit Members(const json& object) : object_(object) {
    if (!object.is_object()) refuse_member("the body", "a JSON object", object);
  }

  bool has(const char* name) const { return object_.contains(name) && !object_.at(name).is_null(); }
  const json& at(const char* name) const {
    static const json kNone;
    const auto found = object_.find(name);
    return found == object_.end() ? kNone : *found;
  }
  std::int64_t number(const char* name, std::int64_t from, std::int64_t to) const {
    return number_in(name, at(name), from, to);
  }
  template <typename Number>
  Number number_or(const char* name, Number otherwise, std::int64_t from, std::int64_t to) const {
    return has(name) ? static_cast<Number>(number(name, from, to)) : otherwise;
  }
  std::string text(const char* name) const { return text_in(name, at(name)); }
  bool flag_or(const char* name, bool otherwise) const {
    if (!has(name)) return otherwise;
    if (!at(name).is_boolean()) refuse_member(name, "true or false", at(name));
    return at(name).get<bool>();
  }
  template <typename Number>
  std::vector<Number> numbers(const char* name, std::int64_t from, std::int64_t to) const {
    std::vector<Number> all;
    if (!has(name)) return all;
    for (const json& item : list(name)) all.push_back(static_cast<Number>(number_in(name, item, from, to)));
    return all;
  }
  [[noreturn]] void refuse_as(const char* name, std::string wanted) const {
    refuse_member(name, std::move(wanted), at(name));
  }
  const json& list(const char* name) const {
    if (!at(name).is_array()) refuse_member(name, "a list", at(name));
    return at(name);
  }
  /// Returns the place of a word among those that are known.
  template <typename Value>
  Value one_of(const char* name, std::span<const std::string_view> words) const {
    return one_of_in<Value>(name, at(name), words);
  }
  Site site() const {
    const json& parts = list_of("site", 3);
    return Site::at(text_in("site", parts[0]), text_in("site", parts[1]),
                    number_in("site", parts[2], 0, std::numeric_limits<int>::max()));
  }
  GuestTensor tensor(const char* name) const {
    static const std::vector<std::string_view> kNames = [] {
      std::vector<std::string_view> names;
      for (const DType dtype : kGuestDTypes) names.push_back(name_of(dtype));
      return names;
    }();
    const json& parts = list_of(name, 3);
    const auto place = one_of_in<std::size_t>(name, parts[0], kNames);
    return {.dtype = kGuestDTypes[place],
            .offset = number_in(name, parts[1], 0, kMostElements),
            .count = number_in(name, parts[2], 0, kMostElements)};
  }
  std::optional<GuestTensor> tensor_or_none(const char* name) const {
    return has(name) ? std::optional(tensor(name)) : std::nullopt;
  }

 private:
  const json& list_of(const char* name, std::size_t size) const {
    if (list(name).size() != size) refuse_member(name, fmt::format("a list of {}", size), at(name));
    return at(name);
  }
  std::int64_t number_in(const char* name, const json& value, std::int64_t from, std::int64_t to) const {
    const bool fits =
        value.is_number_integer() &&
        !(value.is_number_unsigned() && value.get<std::uint64_t>() > static_cast<std::uint64_t>(to));
    if (!fits || value.get<std::int64_t>() < from || value.get<std::int64_t>() > to)
      refuse_member(name, fmt::format("a whole number from {} to {}", from, to), value);
    return value.get<std::int64_t>();
  }
  std::string text_in(const char* name, const json& value) const {
    if (!value.is_string()) refuse_member(name, "a text", value);
    return value.get<std::string>();
  }
  template <typename Value>
  Value one_of_in(const char* name, const json& value, std::span<const std::string_view> words) const {
    const std::string word = text_in(name, value);
    for (std::size_t i = 0; i < words.size(); ++i)
      if (words[i] == word) return static_cast<Value>(i);
    refuse_member(name, fmt::format("one of {}", fmt::join(words, ", ")), value);
  }
  [[noreturn]] void refuse_member(const char* name, std::string wanted, const json& given) const {
    refuse({.code = "guest_request",
            .option = fmt::format("'{}' of its request", name),
            .numbers = fmt::format("{} is given", given.dump(-1, ' ', true, json::error_handler_t::replace)),
            .rule = fmt::format("it is {}", wanted),
            .hint = "the client of this version"});
  }

  const json& object_;
};

constexpr std::string_view kOperations[] = {
    "all_reduce", "reduce_scatter", "all_gather",        "broadcast", "reduce", "gather",
    "scatter",    "all_to_all",     "all_to_all_uneven", "send",      "recv",   "barrier"};
constexpr int kMostPlace = std::numeric_limits<int>::max();

GuestCall call_of(const Members& members) {
  return {.operation = members.one_of<Operation>("operation", kOperations),
          .group = members.number_or<std::size_t>("group", 0, 0, kMostPlace),
          .input = members.tensor_or_none("input"),
          .output = members.tensor_or_none("output"),
          .reduce_op = members.has("reduce") ? members.one_of<ReduceOp>("reduce", kReduceOps) : ReduceOp::sum,
          .root = members.number_or<int>("root", -1, 0, kMostPlace),
          .peer = members.number_or<int>("peer", -1, 0, kMostPlace),
          .send = members.numbers<std::int64_t>("send", 0, kMostElements),
          .receive = members.numbers<std::int64_t>("receive", 0, kMostElements)};
}

/// Returns how many elements a tensor has, or a number above kMostOfWhole.
std::int64_t elements_of(const std::vector<std::int64_t>& shape) {
  std::int64_t elements = 1;
  for (const std::int64_t size : shape)
    elements = size == 0 ? 0 : std::min(elements, kMostOfWhole + 1) * size;
  return elements;
}

/// Returns where a value of this many elements lies; without a place it is the whole itself.
GuestPlace place_of(const Members& request, std::int64_t count) {
  if (!request.has("place")) return {.whole = {count}, .offset = {0}, .shape = {count}};
  const Members members(request.at("place"));
  GuestPlace place = {.kind = members.text("kind"),
                      .step = members.number("step", 0, kMostElements),
                      .whole = members.numbers<std::int64_t>("whole", 0, kMostOfWhole),
                      .offset = members.numbers<std::int64_t>("offset", 0, kMostOfWhole),
                      .shape = members.numbers<std::int64_t>("shape", 0, kMostOfWhole),
                      .begin = members.number("begin", 0, kMostElements)};
  const std::size_t dimensions = place.whole.size();
  if (dimensions > kMostDimensions || place.offset.size() != dimensions || place.shape.size() != dimensions)
    request.refuse_as("place", "whole, offset and shape of as many dimensions, at most 16");
  for (std::size_t i = 0; i < dimensions; ++i)
    if (place.offset[i] + place.shape[i] > place.whole[i])
      request.refuse_as("place", "a block that lies in the whole");
  if (elements_of(place.whole) > kMostOfWhole)
    request.refuse_as("place", fmt::format("a whole of at most {} elements", kMostOfWhole));
  if (place.begin + count > elements_of(place.shape))
    request.refuse_as("place", "a block that has all elements");
  return place;
}

/// Fills in what the wish takes.
void take_arguments(const Members& members, GuestRequest& request) {
  switch (request.wish) {
    case GuestWish::call:
      request.calls = {call_of(members)};
      request.waits = members.flag_or("waits", true);
      return;
    case GuestWish::batch:
      for (const json& call : members.list("calls")) request.calls.push_back(call_of(Members(call)));
      request.waits = members.flag_or("waits", true);
      return;
    case GuestWish::wait:
      request.call = static_cast<std::size_t>(members.number("call", 0, kMostElements));
      return;
    case GuestWish::new_group:
      request.name = members.text("name");
      request.members = members.numbers<int>("members", 0, kMostPlace);
      return;
    case GuestWish::publish:
      request.name = members.text("name");
      request.tensor = members.tensor("tensor");
      request.place = place_of(members, request.tensor.count);
      return;
    case GuestWish::tell:
      request.text = members.text("text");
      return;
    case GuestWish::raised:
      request.text = members.text("text");
      request.is_refused = members.flag_or("refused", false);
      return;
    case GuestWish::end:
      return;
  }
}

}  // namespace

GuestRequest guest_request(const std::string& body) {
  const json parsed = json::parse(body, nullptr, false);
  const Members members(parsed);
  GuestRequest request{.wish = members.one_of<GuestWish>("do", kWishes)};
  if (members.has("site")) request.site = members.site();
  take_arguments(members, request);
  return request;
}

}  // namespace sim
