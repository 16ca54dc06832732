// Proves that dumps are read as they are written, whatever their form, and that nothing else is.

#include "verify/recordings/recording_reader.h"

#include <algorithm>
#include <filesystem>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <string>
#include <vector>

#include "tests/support/refusal_code.h"
#include "tests/verify/recordings/folder.h"
#include "tests/verify/recordings/test_dump.h"
#include "verify/recordings/json_values.h"
#include "verify/recordings/pickle_reader.h"

namespace {

using test::TestDump;
using verify::CallState;
using verify::Recording;

const std::string kProto = "\x80\x02";

std::optional<Recording> read(const std::string& bytes) {
  verify::SharedRanks lists;
  verify::ValueTree tree;
  return verify::recording_of(bytes, "dump_0", lists, tree);
}

sim::Refusal refusal_of(const std::string& bytes) {
  try {
    read(bytes);
  } catch (const sim::Error& error) {
    return error.refusal();
  }
  return {};
}

TestDump small_dump() {
  TestDump dump;
  dump.groups = {{"0", "default_pg", {0, 1}}, {"7", "TENSOR_MODEL_PARALLEL_GROUP", {0, 1}}};
  dump.calls = {
      {.group = 0, .operation = "nccl:all_reduce", .sequence = 1},
      {.group = 1, .operation = "nccl:send 0->1", .sequence = 0, .p2p_sequence = 1, .elements = 300},
      {.group = 1, .operation = "nccl:all_to_all", .sequence = 1, .state = "scheduled"}};
  dump.name_of_frame = "forward";
  return dump;
}

class Form : public testing::TestWithParam<std::string (*)(const TestDump&)> {};
INSTANTIATE_TEST_SUITE_P(RecordingReader, Form, testing::Values(test::json_of, test::pickle_of));

TEST_P(Form, IsReadByTheNamesOfItsFields) {
  const std::optional<Recording> recording = read(GetParam()(small_dump()));
  ASSERT_TRUE(recording);
  EXPECT_EQ(recording->version, "2.10");
  EXPECT_FALSE(recording->is_truncated);
  ASSERT_EQ(recording->groups.size(), 2U);
  EXPECT_EQ(recording->groups[1].name, "7");
  EXPECT_EQ(*recording->groups[1].ranks, (std::vector<int>{0, 1}));
  ASSERT_EQ(recording->statuses.size(), 2U);
  EXPECT_EQ(recording->statuses[0].enqueued, 1);
  ASSERT_EQ(recording->calls.size(), 3U);
  const verify::RecordedCall& send = recording->calls[1];
  EXPECT_EQ(recording->operation(send), "nccl:send 0->1");
  EXPECT_TRUE(send.is_p2p);
  EXPECT_EQ(send.p2p_sequence, 1);
  EXPECT_EQ(recording->sizes[send.input_sizes].elements, 300);
  EXPECT_EQ(recording->text(send.dtypes), "Float");
  EXPECT_EQ(recording->text(send.frames), "forward (train.py:7)");
  EXPECT_EQ(send.state, CallState::completed);
  EXPECT_EQ(recording->calls[2].state, CallState::scheduled);
}

/// A file that was cut anywhere is read as far as it goes, and never refused.
TEST_P(Form, IsReadAsFarAsItGoes) {
  const std::string whole = GetParam()(small_dump());
  std::size_t most = 0;
  for (std::size_t size = 1; size + 1 < whole.size(); ++size) {
    const std::optional<Recording> recording = read(whole.substr(0, size));
    if (!recording) continue;
    EXPECT_TRUE(recording->is_truncated) << size;
    EXPECT_GE(recording->calls.size(), most) << size;
    most = recording->calls.size();
  }
  EXPECT_EQ(most, 3U);
}

TEST(RecordingReader, MemoOfMoreThan255TextsIsRead) {
  TestDump dump = small_dump();
  for (int i = 2; i < 400; ++i)
    dump.groups.push_back({std::to_string(100 + i), "group " + std::to_string(i), {0, i}});
  dump.calls.push_back({.group = 399, .operation = "nccl:broadcast"});
  const std::optional<Recording> recording = read(test::pickle_of(dump));
  ASSERT_TRUE(recording);
  EXPECT_EQ(recording->groups[recording->calls[3].group].description, "group 399");
}

TEST(RecordingReader, RetiredCallsOfGlooAreCompleted) {
  TestDump dump = small_dump();
  dump.calls = {{.group = 0, .operation = "gloo:all_reduce", .state = "scheduled", .is_retired = true},
                {.group = 0, .operation = "nccl:all_reduce", .state = "scheduled", .is_retired = true}};
  const std::optional<Recording> recording = read(test::json_of(dump));
  EXPECT_EQ(recording->calls[0].state, CallState::completed);
  EXPECT_EQ(recording->calls[1].state, CallState::scheduled);
}

TEST(RecordingReader, PartsOfACoalescedCallHaveItsState) {
  TestDump dump = small_dump();
  const auto part = [](std::int64_t p2p, const char* operation, const char* state) {
    return test::DumpedTestCall{
        .group = 1, .operation = operation, .sequence = 0, .p2p_sequence = p2p, .state = state};
  };
  dump.calls = {part(1, "nccl:send 0->1", "scheduled"), part(1, "nccl:recv 0<-1", "scheduled"),
                part(1, "nccl:coalesced", "completed"), part(2, "nccl:send 0->1", "scheduled"),
                part(2, "nccl:coalesced", "scheduled")};
  std::string text = test::json_of(dump);
  for (std::size_t at = text.find("\"is_p2p\":false"); at != std::string::npos;
       at = text.find("\"is_p2p\":false"))
    text.replace(at, 14, "\"is_p2p\":true ");
  const std::optional<Recording> recording = read(text);
  ASSERT_EQ(recording->calls.size(), 3U);
  EXPECT_EQ(recording->calls[0].state, CallState::completed);
  EXPECT_EQ(recording->calls[1].state, CallState::completed);
  EXPECT_EQ(recording->calls[2].state, CallState::scheduled);
}

TEST(RecordingReader, TheRingMayBeginInTheMiddleOfTheList) {
  TestDump dump = small_dump();
  dump.calls[0].record_id = 9;
  const std::optional<Recording> recording = read(test::pickle_of(dump));
  EXPECT_EQ(recording->calls[0].record_id, 1);
  EXPECT_EQ(recording->calls[2].record_id, 9);
}

TEST(PickleReader, RefusesEveryOtherOpcodeByItsNameAndOffset) {
  struct Planted {
    const char* name;
    std::string opcode;
  };
  const std::vector<Planted> all = {{"GLOBAL", "cos\nsystem\n"},
                                    {"REDUCE", "R"},
                                    {"BUILD", "b"},
                                    {"INST", "ios\nsystem\n"},
                                    {"OBJ", "o"},
                                    {"STACK_GLOBAL", "\x93"},
                                    {"NEWOBJ", "\x81"},
                                    {"NEWOBJ_EX", "\x92"},
                                    {"PERSID", "P1\n"},
                                    {"BINPERSID", "Q"},
                                    {"EXT1", "\x82\x01"},
                                    {"BINUNICODE8", "\x8d"},
                                    {"BYTEARRAY8", "\x96"},
                                    {"EMPTY_SET", "\x8f"},
                                    {"LONG", "L5L\n"},
                                    {"POP", "0"},
                                    {"DUP", "2"},
                                    {"no opcode", "\x01"}};
  for (const Planted& planted : all) {
    const std::string head = kProto + "}(" + std::string("X\x07\x00\x00\x00", 5) + "entries";
    const sim::Refusal refusal = refusal_of(head + planted.opcode);
    EXPECT_EQ(refusal.code, "dump_opcode") << planted.name;
    EXPECT_TRUE(refusal.numbers.starts_with(planted.name)) << refusal.numbers;
    EXPECT_NE(refusal.numbers.find("at offset " + std::to_string(head.size())), std::string::npos)
        << refusal.numbers;
  }
}

/// Python's pickler writes a list, a dict or a tuple of one element without a mark.
TEST(PickleReader, ReadsContainersOfOneElement) {
  const auto text = [](const std::string& of) {
    return std::string("X") + static_cast<char>(of.size()) + std::string(3, '\0') + of;
  };
  const std::string entry = "}" + text("collective_seq_id") + "K\x07s";
  const std::optional<Recording> recording =
      read(kProto + "}(" + text("pg_config") + "}" + text("5") + "}" + text("ranks") + "K\x03\x85ss" +
           text("entries") + "]" + entry + "au.");
  ASSERT_TRUE(recording);
  EXPECT_FALSE(recording->is_truncated);
  EXPECT_EQ(recording->calls.at(0).sequence, 7);
  EXPECT_EQ(recording->groups.at(0).name, "5");
  EXPECT_EQ(*recording->groups.at(0).ranks, std::vector<int>{3});
}

/// What Python's pickler writes without being told a protocol: frames, short texts, and a memo without numbers.
TEST(PickleReader, ReadsWhatPythonWritesByDefault) {
  const auto text = [](const std::string& of) {
    return "\x8c" + std::string(1, static_cast<char>(of.size())) + of + "\x94";
  };
  const std::string entry = "}\x94(" + text("collective_seq_id") + "K\x07" + text("process_group") +
                            text("5") + text("tp") + "\x86\x94" + text("input_sizes") +
                            "]\x94(K\x02K\x03K\x04" + "\x87\x94(K\x05K\x06K\x07K\x08t\x94)eu";
  for (const char protocol : {'\x03', '\x04', '\x05'}) {
    const std::optional<Recording> recording =
        read(std::string("\x80") + protocol + "\x95" + std::string(8, '\x01') + "}\x94(" + text("version") +
             text("2.8") + text("entries") + "]\x94" + entry + "au.");
    ASSERT_TRUE(recording);
    EXPECT_FALSE(recording->is_truncated);
    EXPECT_EQ(recording->version, "2.8");
    const verify::RecordedCall& call = recording->calls.at(0);
    EXPECT_EQ(call.sequence, 7);
    EXPECT_EQ(recording->groups.at(call.group).description, "tp");
    EXPECT_EQ(recording->text(recording->sizes[call.input_sizes].text), "[[2, 3, 4], [5, 6, 7, 8], []]");
  }
}

/// What Python writes with another protocol is refused where it first differs.
TEST(PickleReader, OtherProtocolsAreRefusedByNameAndOffset) {
  struct Written {
    std::string bytes, begins;
  };
  for (const Written& written :
       {Written{"(dp0\nVentries\np1\n(lp2\ns.", "DICT (0x64) at offset 1"},
        Written{std::string("}q\x00X\x01\x00\x00\x00vI01\ns.", 14), "INT (0x49) at offset 9"},
        Written{"\x80\x06\x95", "PROTO (0x80) at offset 0 of protocol 6, and protocols 2 to 5 are read"}})
    EXPECT_EQ(refusal_of(written.bytes).numbers, written.begins);
}

TEST(PickleReader, RefusesWhatDoesNotFit) {
  for (const std::string& bytes : {std::string("a"),
                                   std::string("]a"),
                                   std::string("}Na"),
                                   std::string("}Ns"),
                                   std::string("]NNs"),
                                   std::string("](Na"),
                                   std::string("\x85"),
                                   std::string("u"),
                                   std::string("e"),
                                   std::string("\x86"),
                                   std::string("h\x03"),
                                   std::string("q\x00", 2),
                                   std::string("."),
                                   std::string("}(K\x01u"),
                                   std::string("]K\x01("
                                               "u"),
                                   std::string("(."),
                                   std::string("](N}u"),
                                   std::string("\x80\x06"),
                                   std::string("t"),
                                   std::string("\x87"),
                                   std::string("\x94")})
    EXPECT_EQ(refusal_of(kProto + bytes).code, "dump_opcode") << testing::PrintToString(bytes);
}

TEST(PickleReader, HasLimits) {
  const std::string marks(100, '(');
  EXPECT_EQ(refusal_of(kProto + marks).code, "dump_limit");
  EXPECT_EQ(refusal_of(kProto + std::string("Nr\xff\xff\xff\x7f")).code, "dump_limit");
  EXPECT_EQ(refusal_of(kProto + "N" + std::string(verify::kMostValues + 1, '\x94')).code, "dump_limit");
  EXPECT_EQ(refusal_of(kProto + std::string("X\xff\xff\xff\x7f")).code, "dump_limit");
  EXPECT_EQ(refusal_of(kProto + std::string("\x8a\x09") + std::string(9, '\x01')).code, "dump_limit");
  EXPECT_EQ(refusal_of(kProto + std::string(verify::kMostValues + 1, 'N')).code, "dump_limit");
}

/// A list may hold itself, which costs nothing: a reader goes only as deep as the form of a dump.
TEST(PickleReader, ContainersMayHoldThemselves) {
  const std::string bytes = kProto + "}(" + std::string("X\x07\x00\x00\x00", 5) + "entries" +
                            std::string(
                                "]q\x00(h\x00h\x00"
                                "e"
                                "u.",
                                11);
  const std::optional<Recording> recording = read(bytes);
  ASSERT_TRUE(recording);
  EXPECT_TRUE(recording->calls.empty());
}

/// One value may be an element of a million entries, and reading it each time would take hours.
TEST(RecordingReader, CountsAValueEachTimeThatItIsRead) {
  const auto text = [](const std::string& of) {
    return std::string("X") + static_cast<char>(of.size()) + std::string(3, '\0') + of;
  };
  const auto many = [](const std::string& bytes, std::size_t times) {
    std::string all;
    for (std::size_t i = 0; i < times; ++i) all += bytes;
    return all;
  };
  const auto dump_of = [&](std::size_t dtypes, std::size_t calls) {
    const std::string first =
        "}(" + text("input_dtypes") + "](" + many("N", dtypes) + "eu" + std::string("q\0", 2);
    return kProto + "}(" + text("entries") + "](" + first + many(std::string("h\0", 2), calls - 1) + "eu.";
  };
  ASSERT_TRUE(read(dump_of(1000, 1000)));
  EXPECT_EQ(read(dump_of(1000, 1000))->calls.size(), 1000U);
  EXPECT_EQ(refusal_of(dump_of(1'000'000, 100)).numbers,
            "more than 67108864 values, with those that stand in several places");
  EXPECT_EQ(refusal_of(dump_of(1, (std::size_t{1} << 20U) + 1)).numbers, "1048577 calls");
}

TEST(JsonValues, RefusesWhatIsNotJson) {
  for (const char* text : {"{\"entries\" []}", "{\"entries\": [1 2]}", "{\"entries\": [,]}",
                           "{\"entries\": tru }", "{entries: []}", "{\"entries\": []} x",
                           "{\"entries\": [1,]}", "{\"a\\q\": 1}", "{\"entries\": [}", "{\"a\\u12g4\": 1}"})
    EXPECT_EQ(refusal_of(text).code, "dump_text") << text;
  EXPECT_EQ(refusal_of("{\"entries\":" + std::string(100, '[')).code, "dump_limit");
}

TEST(JsonValues, ReadsEscapesAndNumbers) {
  const std::optional<Recording> recording =
      read(R"({"version":"2\u002e\"\n4","entries":[{"record_id":12345678901,"state":null,"is_p2p":1.5e3}],)"
           R"("pg_status":{"0":{"last_enqueued_collective":"-1"}}})");
  ASSERT_TRUE(recording);
  EXPECT_EQ(recording->version, "2.\"\n4");
  EXPECT_EQ(recording->calls.at(0).record_id, 12345678901);
  EXPECT_EQ(recording->statuses.at(0).enqueued, -1);
}

TEST(RecordingReader, WhatHasNoFieldOfADumpIsNoDump) {
  for (const char* text : {"", " ", "{}", "{\"a\":1}", "[1]", "plain text", "{\"entries\":3}"})
    EXPECT_FALSE(read(text)) << text;
  EXPECT_FALSE(read(kProto + "}."));
}

using Folder = test::FolderOfFiles;

TEST(Recordings, DoNotDependOnThreadsAndAreSortedByRank) {
  const Folder folder("recordings_sorted");
  for (int rank = 0; rank < 12; ++rank)
    folder.add("node7_rank_" + std::to_string(rank), test::pickle_of(small_dump()));
  folder.add("README", "no dump");
  for (const int threads : {1, 2, 5}) {
    const verify::Recordings read = verify::read_recordings({{folder.path().string()}, "", threads});
    ASSERT_EQ(read.ranks.size(), 12U);
    for (int rank = 0; rank < 12; ++rank) EXPECT_EQ(read.ranks[static_cast<std::size_t>(rank)].rank, rank);
    EXPECT_EQ(read.notes, std::vector<std::string>{"1 file in the folders is no dump, and was left out."});
  }
}

TEST(Recordings, RanksComeFromTheExpressionIfThereIsOne) {
  const Folder folder("recordings_expression");
  folder.add("host5.attempt2", test::json_of(small_dump()));
  EXPECT_EQ(verify::read_recordings({{folder.path().string()}, "", 1}).ranks.at(0).rank, 2);
  EXPECT_EQ(verify::read_recordings({{folder.path().string()}, "host([0-9]+)", 1}).ranks.at(0).rank, 5);
  EXPECT_EQ(verify::read_recordings({{folder.path().string()}, "[0-9](?=\\.attempt)", 1}).ranks.at(0).rank,
            5);
}

TEST(Recordings, APickleAndItsJsonAreOneDump) {
  const Folder folder("recordings_both");
  folder.add("dump_3", test::pickle_of(small_dump()));
  folder.add("dump_3.json", test::json_of(small_dump()));
  const verify::Recordings read = verify::read_recordings({{folder.path().string()}, "", 2});
  EXPECT_EQ(read.ranks.size(), 1U);
  EXPECT_EQ(read.notes.size(), 1U);
}

TEST(Recordings, DumpsThatHoldNothingAreSaid) {
  const Folder folder("recordings_blank");
  folder.add("trace_0", test::pickle_of(small_dump()));
  folder.add("trace_1", "");
  folder.add("trace_2", test::pickle_of(small_dump()).substr(0, 7));
  folder.add("trace_3", "{\"ent");
  folder.add("log_4", "");  // not the name of a dump
  folder.add("trace_0.json", " ");
  const verify::Recordings read = verify::read_recordings({{folder.path().string()}, "", 2});
  ASSERT_EQ(read.blank.size(), 3U);
  for (int rank = 1; rank < 4; ++rank) EXPECT_EQ(read.blank[static_cast<std::size_t>(rank - 1)].rank, rank);
  EXPECT_EQ(verify::words_of(read.blank[0]), "is empty");
  EXPECT_EQ(verify::words_of(read.blank[1]), "ends after 7 bytes, before its first field");
  EXPECT_EQ(read.notes.at(0), "2 files in the folders are no dump, and were left out.");
  const verify::Recordings named = verify::read_recordings(
      {{folder.path().string() + "/trace_0", folder.path().string() + "/log_4"}, "", 1});
  EXPECT_EQ(named.blank.at(0).rank, 4);
}

/// What a folder has beside the dumps keeps none of them from being read, and a damaged dump no other one.
TEST(Recordings, FilesOfAFolderThatAreRefusedAreLeftOut) {
  const Folder folder("recordings_damaged");
  const std::string whole = test::pickle_of(small_dump());
  for (const char* name : {"trace_0", "trace_1"}) folder.add(name, whole);
  folder.add("trace_2", whole.substr(0, whole.size() / 2) + "\xff" + whole.substr(whole.size() / 2));
  folder.add("trace_3", whole.substr(0, whole.size() / 2) + std::string(4096, '\0'));
  folder.add("model_4.pkl", "\x80\x04\x8c\x05torch\x94\x8c\x06Tensor\x94\x93.");
  folder.add("metrics_5.jsonl", "{\"loss\": 1}\n{\"loss\": 2}\n");
  folder.add("core_6", "");
  std::filesystem::resize_file(folder.path() / "core_6", verify::kMostRecordingBytes + 1);
  const verify::Recordings read = verify::read_recordings({{folder.path().string()}, "", 2});
  ASSERT_EQ(read.ranks.size(), 3U);
  EXPECT_EQ(read.ranks[2].rank, 3);
  EXPECT_TRUE(read.ranks[2].is_truncated);
  ASSERT_EQ(read.blank.size(), 1U);
  EXPECT_EQ(read.blank[0].rank, 2);
  EXPECT_TRUE(verify::words_of(read.blank[0]).starts_with("is damaged (")) << verify::words_of(read.blank[0]);
  ASSERT_EQ(read.notes.size(), 5U);
  for (const std::size_t note : {0U, 1U, 2U})
    EXPECT_NE(read.notes[note].find("is no dump, and was left out: "), std::string::npos) << read.notes[note];
  // Of many such files some are named, and the others are counted.
  for (int i = 0; i < 25; ++i) folder.add(fmt::format("metrics_{}.jsonl", 100 + i), "{\"loss\": 1}\n{}\n");
  const verify::Recordings many = verify::read_recordings({{folder.path().string()}, "", 2});
  EXPECT_EQ(std::ranges::count_if(
                many.notes,
                [](const std::string& note) {
                  return note == "8 other files of this kind are no dump either, and were left out.";
                }),
            1);
  // A file that is given by name is refused, and so is a folder of refused files alone.
  for (const char* name : {"trace_2", "model_4.pkl"})
    EXPECT_EQ(test::refusal_code([&] {
                verify::read_recordings({{(folder.path() / name).string()}, "", 1});
              }),
              "dump_opcode");
  for (const char* name : {"trace_0", "trace_1", "trace_3"}) std::filesystem::remove(folder.path() / name);
  EXPECT_EQ(test::refusal_code([&] {
              verify::read_recordings({{folder.path().string()}, "", 1});
            }),
            "dump_size");
}

TEST(Recordings, TheNumberBehindRankIsTheRank) {
  const auto rank = [](const std::string& name) {
    const Folder folder("recordings_named");
    folder.add(name, test::json_of(small_dump()));
    return verify::read_recordings({{folder.path().string()}, "", 1}).ranks.at(0).rank;
  };
  EXPECT_EQ(rank("nccl_trace_rank3_pid4000"), 3);
  EXPECT_EQ(rank("rank_12.2026-11-25"), 12);
  EXPECT_EQ(rank("node_rank1_local_rank2_rank10_v2.json"), 10);
  EXPECT_EQ(rank("local_rank2_7"), 7);
  EXPECT_EQ(rank("rank_5_local-rank_1.json"), 5);
  EXPECT_EQ(test::refusal_code([&] { rank("host3_local_rank_0"); }), "unknown_rank");
  EXPECT_EQ(rank("_dump_5"), 5);
}

TEST(Recordings, AreRefusedWithTheirReason) {
  const Folder folder("recordings_refused");
  const auto code = [&](const std::string& file, const std::string& expression) {
    return test::refusal_code([&] {
      verify::read_recordings({{folder.path().string() + "/" + file}, expression, 1});
    });
  };
  EXPECT_EQ(code("absent", ""), "dump_missing");
  EXPECT_EQ(code("", ""), "dump_empty");
  folder.add("text_1", "no dump");
  EXPECT_EQ(code("text_1", ""), "dump_form");
  EXPECT_EQ(code("", ""), "dump_empty");
  const Folder packed("recordings_packed");
  packed.add("dump_0.gz", "\x1f\x8b\x08");
  try {
    verify::read_recordings({{packed.path().string()}, "", 1});
    ADD_FAILURE() << "a folder of packed dumps is read";
  } catch (const sim::Error& error) {
    EXPECT_NE(error.refusal().numbers.find("packed with gzip"), std::string::npos) << error.refusal().numbers;
  }
  folder.add("dump", test::json_of(small_dump()));
  EXPECT_EQ(code("dump", ""), "unknown_rank");
  EXPECT_EQ(code("dump", "rank([0-9]+)"), "unknown_rank");
  EXPECT_EQ(code("dump", "("), "bad_expression");
  folder.add("dump_99999999999", test::json_of(small_dump()));
  EXPECT_EQ(code("dump_99999999999", ""), "unknown_rank");
  const Folder twice("recordings_twice");
  twice.add("a_1", test::json_of(small_dump()));
  TestDump other = small_dump();
  other.calls.pop_back();
  twice.add("b_1", test::json_of(other));
  EXPECT_EQ(test::refusal_code([&] {
              verify::read_recordings({{twice.path().string()}, "", 1});
            }),
            "dump_twice");
  std::filesystem::resize_file(folder.path().string() + "/dump", verify::kMostRecordingBytes + 1);
  EXPECT_EQ(code("dump", ""), "dump_size");
}

}  // namespace
