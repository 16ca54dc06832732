#include "verify/recordings/pickle_reader.h"

#include <array>
#include <bit>
#include <cstdint>
#include <fmt/format.h>
#include <vector>

#include "verify/output/refusal_table.h"
#include "verify/output/table_rows.h"

namespace verify {

namespace {

constexpr std::string_view kOpcodes =
#include "pickle_opcodes.tsv.inc"
    ;

struct Opcode {
  std::string name = "no opcode";
  int bytes = 0;  // of the argument that stands after it
};

/// Returns the opcodes of all protocols, by their codes.
const std::array<Opcode, 256>& opcodes() {
  static const std::array<Opcode, 256> all = [] {
    std::array<Opcode, 256> found;
    for (const TextRow& row : rows_of_table(kOpcodes))
      found[std::stoul(row[0], nullptr, 16)] = {row[1], std::stoi(row[2])};
    return found;
  }();
  return all;
}

/// Thrown where the file ends within an opcode.
struct PickleEnds {};

class PickleReader {
 public:
  PickleReader(std::string_view bytes, const std::string& file, ValueTree& tree)
      : bytes_(bytes), file_(file), tree_(tree), stack_(tree.stack), memo_(tree.memo) {}

  ParsedFile read() {
    ParsedFile parsed;
    try {
      while (step()) {
      }
    } catch (const PickleEnds&) {
      parsed.is_truncated = true;
      close_all();
    }
    if (!stack_.empty()) parsed.value = stack_.front();
    return parsed;
  }

 private:
  /// Executes one opcode. Returns whether there are more.
  bool step() {
    at_ = next_;
    const unsigned char code = byte();
    const std::uint64_t argument = little_endian(opcodes_[code].bytes);
    switch (code) {
      case 0x80:
        if (argument < 2 || argument > 5)
          refuse_opcode(code, fmt::format("of protocol {}, and protocols 2 to 5 are read", argument));
        break;
      case 0x95:  // FRAME: this many bytes were written at once
        break;
      case '.':
        if (stack_.size() != 1 || !marks_.empty()) refuse_opcode(code, "while values are open");
        return false;
      case '(':
        if (marks_.size() == kMostMarks) refuse_by("dump_limit/marks", file_, kMostMarks, at_);
        marks_.push_back(stack_.size());
        break;
      case '}':
        tree_.push(tree_.container(ValueKind::dict));
        break;
      case ']':
      case ')':
        tree_.push(tree_.container(ValueKind::list));
        break;
      case 'u':
      case 'e':
        close(code, code == 'u' ? ValueKind::dict : ValueKind::list);
        break;
      case 's':
        add(code, ValueKind::dict, 2);
        break;
      case 'a':
        add(code, ValueKind::list, 1);
        break;
      case 0x85:
      case 0x86:
      case 0x87:
        push_tuple(code, code - 0x84U);
        break;
      case 't':
        close_tuple(code);
        break;
      case 'X':
      case 0x8c:
        tree_.push(Value::of_text(text(argument)));
        break;
      case 'q':
      case 'r':
      case 0x94:
        put(code, code == 0x94 ? memo_.size() : argument);
        break;
      case 'h':
      case 'j':
        get(code, argument);
        break;
      case 'J':
        tree_.push(Value::of(static_cast<std::int32_t>(static_cast<std::uint32_t>(argument))));
        break;
      case 'K':
      case 'M':
        tree_.push(Value::of(static_cast<std::int64_t>(argument)));
        break;
      case 0x8a:
        push_long(static_cast<int>(argument));
        break;
      case 'G':
        tree_.push(Value::of_real(big_endian_double()));
        break;
      case 'N':
        tree_.push({});
        break;
      case 0x88:
      case 0x89:
        tree_.push(Value::of_boolean(code == 0x88));
        break;
      default:
        refuse_opcode(code, "");
    }
    return true;
  }

  [[noreturn]] void refuse_opcode(unsigned char code, const std::string& problem) const {
    refuse_by("dump_opcode", file_, opcodes_[code].name, code, at_, problem.empty() ? "" : " ", problem);
  }

  unsigned char byte() {
    if (next_ == bytes_.size()) throw PickleEnds();
    return static_cast<unsigned char>(bytes_[next_++]);
  }

  std::string_view text(std::uint64_t size) {
    if (size > kMostTextBytes) refuse_by("dump_limit/text", file_, size, at_, kMostTextBytes);
    if (bytes_.size() - next_ < size) throw PickleEnds();
    const std::string_view found = bytes_.substr(next_, size);
    next_ += size;
    return found;
  }

  std::uint64_t little_endian(int count) {
    std::uint64_t value = 0;
    for (int i = 0; i < count; ++i) value |= std::uint64_t{byte()} << static_cast<unsigned>(8 * i);
    return value;
  }

  double big_endian_double() {
    std::uint64_t bits = 0;
    for (int i = 0; i < 8; ++i) bits = bits << 8U | byte();
    return std::bit_cast<double>(bits);
  }

  /// LONG1: the number of bytes, and the bytes of a number with a sign.
  void push_long(int count) {
    if (count > 8) refuse_by("dump_limit/number", file_, count, at_);
    std::uint64_t value = little_endian(count);
    const bool is_negative = count > 0 && count < 8 && (value >> static_cast<unsigned>(8 * count - 1)) != 0;
    if (is_negative) value |= ~std::uint64_t{0} << static_cast<unsigned>(8 * count);
    tree_.push(Value::of(static_cast<std::int64_t>(value)));
  }

  /// The first element of the stack that the innermost open container may not take.
  std::size_t floor() const { return marks_.empty() ? 0 : marks_.back(); }

  void push_tuple(unsigned char code, std::size_t size) {
    if (stack_.size() < floor() + size) refuse_opcode(code, fmt::format("without {} values", size));
    const Value tuple = tree_.container(ValueKind::list);
    tree_.take(tuple, stack_.size() - size);
    tree_.push(tuple);
  }

  /// TUPLE: makes a tuple of what stands above the innermost mark.
  void close_tuple(unsigned char code) {
    if (marks_.empty()) refuse_opcode(code, "without a mark");
    const std::size_t size = stack_.size() - marks_.back();
    marks_.pop_back();
    push_tuple(code, size);
  }

  /// SETITEM and APPEND: adds the last values to the container below them, without a mark.
  void add(unsigned char code, ValueKind kind, std::size_t size) {
    if (stack_.size() < floor() + size + 1 || !stack_[stack_.size() - size - 1].is(kind))
      refuse_opcode(code, "without a container to which it adds");
    tree_.take(stack_[stack_.size() - size - 1], stack_.size() - size);
  }

  void put(unsigned char code, std::uint64_t index) {
    if (stack_.size() == floor()) refuse_opcode(code, "without a value");
    if (index > memo_.size()) refuse_by("dump_limit/memo", file_, index, memo_.size(), at_);
    if (index == kMostValues) refuse_by("dump_limit/memo_size", file_);
    if (index == memo_.size()) memo_.emplace_back();
    memo_[index] = stack_.back();
  }

  void get(unsigned char code, std::uint64_t index) {
    if (index >= memo_.size()) refuse_opcode(code, fmt::format("of entry {}, which is not there", index));
    tree_.push(memo_[index]);
  }

  /// Adds what stands above the innermost mark to the container below it.
  void close(unsigned char code, ValueKind kind) {
    if (marks_.empty() || marks_.back() == 0 || !stack_[marks_.back() - 1].is(kind))
      refuse_opcode(code, "without a container to which it adds");
    if (kind == ValueKind::dict && (stack_.size() - marks_.back()) % 2 != 0)
      refuse_opcode(code, "with a key without a value");
    tree_.take(stack_[marks_.back() - 1], marks_.back());
    marks_.pop_back();
  }

  /// Closes all containers that are open where the file ends.
  void close_all() {
    for (; !marks_.empty(); marks_.pop_back()) {
      if (marks_.back() > 0) tree_.take(stack_[marks_.back() - 1], marks_.back());
    }
  }

  std::string_view bytes_;
  const std::string& file_;
  ValueTree& tree_;
  std::size_t next_ = 0;  // the byte that is read next
  std::size_t at_ = 0;    // the first byte of the opcode
  const std::array<Opcode, 256>& opcodes_ = opcodes();
  std::vector<Value>& stack_;
  std::vector<Value>& memo_;
  std::vector<std::size_t> marks_;
};

}  // namespace

bool begins_as_pickle(std::string_view bytes) {
  constexpr std::string_view kOldDict = "(dp0\n", kOlderDict = "}q";
  return bytes.starts_with('\x80') || bytes.starts_with(kOldDict) || bytes.starts_with(kOlderDict);
}

ParsedFile parse_pickle(std::string_view bytes, const std::string& file, ValueTree& tree) {
  return PickleReader(bytes, file, tree).read();
}

}  // namespace verify
