#include "sim/meeting/rank_messages.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "sim/meeting/byte_order.h"

namespace sim {

namespace {

constexpr std::uint64_t kMostRank = std::uint64_t{1} << 20;
/// The most bytes of a field of a refusal. The message that is thrown is shorter still (error.cpp).
constexpr std::size_t kMostField = 1000;

std::string printable(std::string text) {
  for (char& c : text) c = c >= ' ' && c <= '~' ? c : '?';
  return text;
}

void write(ByteWriter& writer, const std::optional<Refusal>& refusal) {
  writer.number(refusal ? 1 : 0, 1);
  if (!refusal) return;
  for (const std::string* field :
       {&refusal->code, &refusal->option, &refusal->numbers, &refusal->rule, &refusal->hint}) {
    writer.text(std::string_view(*field).substr(0, kMostField));
  }
}

std::optional<Refusal> read_refusal(ByteReader& reader) {
  if (reader.number(1) == 0) return std::nullopt;
  Refusal refusal;
  for (std::string* field :
       {&refusal.code, &refusal.option, &refusal.numbers, &refusal.rule, &refusal.hint}) {
    *field = printable(reader.text());
  }
  return refusal;
}

void write(ByteWriter& writer, std::chrono::milliseconds patience) {
  writer.number(static_cast<std::uint64_t>(patience.count()), 8);
}

std::chrono::milliseconds read_patience(ByteReader& reader) {
  const auto most = static_cast<std::uint64_t>(kLongestPatience.count());
  return std::chrono::milliseconds(std::min(reader.number(8), most));
}

/// Returns `message` if the reader found all bytes it needed and has none left, and nothing otherwise.
template <typename Message>
std::optional<Message> if_whole(const ByteReader& reader, Message message) {
  if (!reader.is_whole()) return std::nullopt;
  return message;
}

}  // namespace

Frame frame_of(const Hello& hello) {
  ByteWriter writer;
  writer.text(std::string_view(hello.program_version).substr(0, kMostName));
  writer.number(static_cast<std::uint64_t>(hello.rank), 4);
  writer.number(static_cast<std::uint64_t>(hello.world_size), 4);
  writer.number(hello.configuration, 8);
  writer.text(std::string_view(hello.host).substr(0, kMostName));
  writer.bytes(hello.payload);
  write(writer, hello.patience);
  return {FrameKind::hello, writer.take()};
}

std::optional<Hello> decoded_hello(const Frame& frame) {
  if (frame.kind != FrameKind::hello) return std::nullopt;
  ByteReader reader(frame.body);
  Hello hello;
  hello.program_version = printable(reader.text());
  const std::uint64_t rank = reader.number(4);
  const std::uint64_t world_size = reader.number(4);
  hello.configuration = reader.number(8);
  hello.host = printable(reader.text());
  hello.payload = reader.bytes();
  hello.patience = read_patience(reader);
  const bool fits = rank < world_size && world_size <= kMostRank &&
                    hello.program_version.size() <= kMostName && hello.host.size() <= kMostName &&
                    hello.payload.size() <= kMostPayload;
  if (!fits) return std::nullopt;
  hello.rank = static_cast<int>(rank);
  hello.world_size = static_cast<int>(world_size);
  return if_whole(reader, std::move(hello));
}

Frame frame_of(const Answer& answer) {
  ByteWriter writer;
  write(writer, answer.refusal);
  writer.number(static_cast<std::uint64_t>(answer.local_rank), 4);
  writer.number(static_cast<std::uint64_t>(answer.local_world_size), 4);
  writer.bytes(answer.refusal ? Bytes{} : answer.payload);
  return {FrameKind::answer, writer.take()};
}

std::optional<Answer> decoded_answer(const Frame& frame) {
  if (frame.kind != FrameKind::answer) return std::nullopt;
  ByteReader reader(frame.body);
  Answer answer;
  answer.refusal = read_refusal(reader);
  const std::uint64_t local_rank = reader.number(4);
  const std::uint64_t local_world_size = reader.number(4);
  answer.payload = reader.bytes();
  if (local_rank >= local_world_size || local_world_size > kMostRank || answer.payload.size() > kMostPayload)
    return std::nullopt;
  answer.local_rank = static_cast<int>(local_rank);
  answer.local_world_size = static_cast<int>(local_world_size);
  return if_whole(reader, std::move(answer));
}

Frame frame_of(const Report& report) {
  ByteWriter writer;
  writer.number(report.is_equal ? 1 : 0, 1);
  writer.text(std::string_view(report.text).substr(0, kMostText));
  write(writer, report.patience);
  return {FrameKind::report, writer.take()};
}

std::optional<Report> decoded_report(const Frame& frame) {
  if (frame.kind != FrameKind::report) return std::nullopt;
  ByteReader reader(frame.body);
  Report report;
  report.is_equal = reader.number(1) == 1;
  report.text = reader.text();
  report.patience = read_patience(reader);
  if (report.text.size() > kMostText) return std::nullopt;
  return if_whole(reader, std::move(report));
}

Frame frame_of(const Ending& ending) {
  ByteWriter writer;
  writer.number(ending.is_equal ? 1 : 0, 1);
  write(writer, ending.failure);
  return {FrameKind::conclusion, writer.take()};
}

std::optional<Ending> decoded_ending(const Frame& frame) {
  if (frame.kind != FrameKind::conclusion) return std::nullopt;
  ByteReader reader(frame.body);
  Ending ending;
  ending.is_equal = reader.number(1) == 1;
  ending.failure = read_refusal(reader);
  return if_whole(reader, std::move(ending));
}

}  // namespace sim
