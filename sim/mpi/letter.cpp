#include "sim/mpi/letter.h"

#include <fmt/format.h>

#include "sim/base/check.h"

namespace sim {

namespace {

void write_signed(ByteWriter& writer, std::int64_t value) {
  writer.number(static_cast<std::uint64_t>(value), 8);
}
std::int64_t read_signed(ByteReader& reader) { return static_cast<std::int64_t>(reader.number(8)); }
int read_int(ByteReader& reader) { return static_cast<int>(read_signed(reader)); }

LetterKind kind_of(Operation operation) {
  if (operation == Operation::send) return LetterKind::send;
  return operation == Operation::recv ? LetterKind::recv : LetterKind::collective;
}

}  // namespace

Letter letter_of(const Call& call, const ProcessGroup& group, int from, std::uint32_t run) {
  return {.key = {from, run, short_text_of(group), kind_of(call.operation), call.sequence},
          .operation = call.operation,
          .dtype = call.dtype,
          .reduce_op = call.reduce_op,
          .root = call.root,
          .color = call.rare->color,
          .split_key = call.rare->key,
          .count = call.count,
          .name = call.rare->name,
          .members = call.rare->members,
          .site = call.site.name,
          .file = call.site.file,
          .line = call.site.line,
          .payload = {}};
}

Bytes encoded_letter(const Letter& letter) {
  ByteWriter writer;
  write_signed(writer, letter.to);
  writer.number(letter.key.run, 4);
  writer.text(letter.key.group);
  writer.number(static_cast<std::uint64_t>(letter.key.kind), 1);
  write_signed(writer, letter.key.sequence);
  writer.number(static_cast<std::uint64_t>(letter.operation), 1);
  writer.number(static_cast<std::uint64_t>(letter.dtype), 1);
  writer.number(static_cast<std::uint64_t>(letter.reduce_op), 1);
  for (const std::int64_t number : {std::int64_t{letter.root}, std::int64_t{letter.color},
                                    std::int64_t{letter.split_key}, letter.count, letter.line})
    write_signed(writer, number);
  writer.text(letter.name);
  writer.number(letter.members.size(), 4);
  for (const int member : letter.members) write_signed(writer, member);
  writer.text(letter.site);
  writer.text(letter.file);
  ByteWriter whole;
  whole.bytes(writer.take());
  Bytes bytes = whole.take();
  bytes.insert(bytes.end(), letter.payload.begin(), letter.payload.end());
  return bytes;
}

Letter decoded_letter(const Bytes& bytes, int from) {
  constexpr std::size_t kWidth = 4;  // bytes of the number that is the length of the head
  SIM_CHECK(bytes.size() >= kWidth);
  const auto head = static_cast<std::size_t>(ByteReader(std::span(bytes).first(kWidth)).number(kWidth));
  SIM_CHECK(bytes.size() >= kWidth + head);
  ByteReader reader{std::span(bytes).subspan(kWidth, head)};
  Letter letter;
  letter.key.from = from;
  letter.to = read_int(reader);
  letter.key.run = static_cast<std::uint32_t>(reader.number(4));
  letter.key.group = reader.text();
  letter.key.kind = static_cast<LetterKind>(reader.number(1));
  letter.key.sequence = read_signed(reader);
  letter.operation = static_cast<Operation>(reader.number(1));
  letter.dtype = static_cast<DType>(reader.number(1));
  letter.reduce_op = static_cast<ReduceOp>(reader.number(1));
  letter.root = read_int(reader);
  letter.color = read_int(reader);
  letter.split_key = read_int(reader);
  letter.count = read_signed(reader);
  letter.line = read_int(reader);
  letter.name = reader.text();
  letter.members.resize(static_cast<std::size_t>(reader.number(4)));
  for (int& member : letter.members) member = read_int(reader);
  letter.site = reader.text();
  letter.file = reader.text();
  SIM_CHECK(reader.is_whole());
  letter.payload.assign(bytes.begin() + static_cast<std::ptrdiff_t>(kWidth + head), bytes.end());
  return letter;
}

}  // namespace sim
