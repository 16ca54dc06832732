#include "tests/verify/recordings/unpickled.h"

#include <bit>
#include <cstddef>
#include <cstdint>
#include <map>
#include <stdexcept>
#include <vector>

namespace test {

namespace {

using Json = nlohmann::ordered_json;

class Machine {
 public:
  explicit Machine(const std::string& bytes) : bytes_(bytes) {}

  Json run() {
    if (take(2) != "\x80\x02") fail("no protocol 2");
    for (;;) {
      const char opcode = take(1)[0];
      if (opcode == '.') break;
      step(opcode);
    }
    if (stack_.size() != 1 || !marks_.empty() || at_ != bytes_.size()) fail("not one value");
    return stack_.back();
  }

 private:
  void step(char opcode) {
    switch (opcode) {
      case '}':
        return push(Json::object());
      case ']':
        return push(Json::array());
      case '(':
        return marks_.push_back(stack_.size());
      case 'X':
        return push(take(unsigned_number(4)));
      case 'q':
        memo_[unsigned_number(1)] = stack_.back();
        return;
      case 'r':
        memo_[unsigned_number(4)] = stack_.back();
        return;
      case 'h':
        return push(memo_.at(unsigned_number(1)));
      case 'j':
        return push(memo_.at(unsigned_number(4)));
      case 'K':
        return push(unsigned_number(1));
      case 'M':
        return push(unsigned_number(2));
      case 'J':
        return push(static_cast<std::int32_t>(unsigned_number(4)));
      case '\x8a':
        if (unsigned_number(1) != 8) fail("a LONG1 that has not eight bytes");
        return push(static_cast<std::int64_t>(unsigned_number(8)));
      case 'G':
        return push(std::bit_cast<double>(big_endian(8)));
      case 'N':
        return push(nullptr);
      case '\x88':
        return push(true);
      case '\x89':
        return push(false);
      case '\x86':
        return pair();
      case 'u':
        return set_items();
      case 'e':
        return append();
      default:
        fail("an opcode that PyTorch does not write");
    }
  }

  void push(Json value) { stack_.push_back(std::move(value)); }

  std::vector<Json> since_mark() {
    const std::size_t mark = marks_.back();
    marks_.pop_back();
    std::vector<Json> values(stack_.begin() + static_cast<std::ptrdiff_t>(mark), stack_.end());
    stack_.resize(mark);
    return values;
  }
  void set_items() {
    const std::vector<Json> values = since_mark();
    for (std::size_t i = 0; i + 1 < values.size(); i += 2)
      stack_.back()[values[i].get<std::string>()] = values[i + 1];
  }
  void append() {
    for (const Json& value : since_mark()) stack_.back().push_back(value);
  }
  void pair() {
    Json second = stack_.back();
    stack_.pop_back();
    Json first = stack_.back();
    stack_.back() = Json::object();
    stack_.back()["pair"] = Json::array({std::move(first), std::move(second)});
  }

  std::string take(std::uint64_t count) {
    if (count > bytes_.size() - at_) fail("the bytes end early");
    at_ += count;
    return bytes_.substr(at_ - count, count);
  }
  std::uint64_t unsigned_number(int bytes) {
    std::uint64_t number = 0;
    const std::string text = take(static_cast<std::uint64_t>(bytes));
    for (int i = bytes; i-- > 0;)
      number = number << 8U | static_cast<unsigned char>(text[static_cast<std::size_t>(i)]);
    return number;
  }
  std::uint64_t big_endian(int bytes) {
    std::uint64_t number = 0;
    for (const char byte : take(static_cast<std::uint64_t>(bytes)))
      number = number << 8U | static_cast<unsigned char>(byte);
    return number;
  }
  [[noreturn]] void fail(const std::string& what) const {
    throw std::runtime_error(what + " at byte " + std::to_string(at_));
  }

  const std::string& bytes_;
  std::size_t at_ = 0;
  std::vector<Json> stack_;
  std::vector<std::size_t> marks_;
  std::map<std::uint64_t, Json> memo_;
};

}  // namespace

Json unpickled(const std::string& bytes) { return Machine(bytes).run(); }

}  // namespace test
