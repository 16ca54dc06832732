// Proves that the document of a run keeps all that a reader found, and that another document is refused by
// the name of the member that is wrong.

#include "verify/run_arguments/run_document.h"

#include <algorithm>
#include <fstream>
#include <functional>
#include <gtest/gtest.h>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/verify/run_arguments/read_arguments.h"
#include "verify/run_arguments/run_file.h"

namespace {

using nlohmann::ordered_json;
using verify::RunArguments;

/// A run in which nothing is left out.
RunArguments whole_run() {
  RunArguments run = verify::read_run_text(
      "export CUDA_DEVICE_MAX_CONNECTIONS=1\nARGS=(--num-layers 4 --bf16 --seq_length 16)\n"
      "if [ -n \"$LOG\" ]; then ARGS+=(--log-interval 5); fi\n"
      "torchrun --nnodes $NODES --nproc_per_node 4 pretrain_gpt.py ${ARGS[@]} --hidden-size $H $MORE\n",
      {{"NODES", "2"}});
  run.name = "runs/pretrain.sh";
  run.set = {{"NODES", "2"}};
  run.given.push_back({"micro-batch-size", {"2", "it's \"two\""}, 0, true});
  run.contradictions = {"4 processes on 2 GPUs"};
  run.notes = {"a note", "another one"};
  return run;
}

std::string text_of(const verify::Unresolved& unknown) {
  std::string text = unknown.text + "|" + unknown.variable + "|" + unknown.argument + "|" +
                     std::to_string(unknown.line) + "|" + unknown.reason + "|" +
                     std::to_string(static_cast<int>(unknown.is_of_world));
  for (const std::string& word : unknown.appended) text += "|" + word;
  return text;
}

/// Returns every member of a run as a text of its own.
std::vector<std::string> members_of(const RunArguments& run) {
  std::vector<std::string> all = {verify::run_file_kind_name(run.kind),
                                  run.name,
                                  run.script,
                                  run.world_size_source,
                                  std::to_string(run.world_size.value_or(-1)),
                                  std::to_string(run.gpus_per_node.value_or(-1))};
  for (const auto* arguments : {&run.given, &run.with_underscores})
    for (const verify::RunArgument& argument : *arguments)
      all.push_back(test::text_of(argument) + "|" + std::to_string(argument.line) + "|" +
                    std::to_string(static_cast<int>(argument.is_option)));
  for (const verify::Unresolved& unknown : run.unresolved) all.push_back(text_of(unknown));
  for (const auto* sentences : {&run.notes, &run.contradictions})
    for (const std::string& sentence : *sentences) all.push_back(sentence);
  for (const auto* texts : {&run.environment, &run.set})
    for (const auto& [name, text] : *texts) all.push_back(name + "=" + text);
  return all;
}

TEST(RunDocument, KeepsAllThatAReaderFound) {
  const RunArguments run = whole_run();
  ASSERT_FALSE(run.with_underscores.empty());
  ASSERT_GE(run.unresolved.size(), 3U);
  const std::string text = verify::text_of_document(run);
  EXPECT_TRUE(verify::is_run_document(text));
  EXPECT_EQ(members_of(verify::read_run_document(text)), members_of(run));
  const auto appended = [](const verify::Unresolved& unknown) { return !unknown.appended.empty(); };
  EXPECT_EQ(std::ranges::count_if(run.unresolved, appended), 1);
}

TEST(RunDocument, IsToldByItsFirstMember) {
  EXPECT_TRUE(verify::is_run_document(" \n{ \"shardproof_run\": 1}"));
  for (const char* text : {"", "{}", "{\"kind\": \"log\"}", "shardproof_run", "[\"shardproof_run\"]"})
    EXPECT_FALSE(verify::is_run_document(text)) << text;
}

/// A training may write its own names, and needs no more than these members.
TEST(RunDocument, NeedsKindNameAndArguments) {
  const RunArguments run = verify::read_run_text(
      R"({"shardproof_run": 1, "kind": "log", "name": "job 7",
          "arguments": [{"name": "num_layers", "values": ["4"]}, {"name": "bf16", "values": ["True"]}]})",
      {});
  EXPECT_EQ(test::text_of(run), "num-layers=4 bf16=True");
  EXPECT_EQ(run.name, "job 7");
  EXPECT_FALSE(run.world_size);
}

TEST(RunDocument, ThatOfTheReadmeIsRead) {
  std::ifstream file(SHARDPROOF_SOURCE_DIR "/scenarios/README.md");
  const std::string readme((std::istreambuf_iterator<char>(file)), {});
  const std::size_t begin = readme.find("{\"shardproof_run\"");
  const RunArguments run = verify::read_run_text(readme.substr(begin, readme.find("```", begin) - begin), {});
  EXPECT_EQ(test::text_of(run), "num-layers=32 bf16=True");
  EXPECT_EQ(run.world_size, 64);
}

std::string refusal_of(const ordered_json& document) {
  return test::refusal_of([&] { verify::read_run_text(document.dump(), {}); });
}

/// Replaces every value of a document in turn by one of another form, and expects the refusal to name it.
void expect_each_is_checked(const ordered_json& document, const ordered_json::json_pointer& here,
                            const std::string& name, int& checked) {
  const ordered_json& value = document.at(here);
  if (!name.empty()) {
    ordered_json changed = document;
    changed[here] = 1.5;
    EXPECT_EQ(refusal_of(changed), test::at("run_document", name)) << changed.dump();
    ++checked;
  }
  if (!value.is_structured()) return;
  for (const auto& [key, member] : value.items()) {
    const std::string inner =
        value.is_array() ? name + "[" + key + "]" : (name.empty() ? key : name + "." + key);
    expect_each_is_checked(document, here / key, inner, checked);
  }
}

TEST(RunDocument, EveryMemberIsChecked) {
  const auto document = ordered_json::parse(verify::text_of_document(whole_run()));
  int checked = 0;
  for (const auto& [key, member] : document.items()) {
    ordered_json part = document;
    const ordered_json::json_pointer here("/" + key);
    if (member.is_array() && !member.empty())
      part[here] = ordered_json::array({member.front(), member.back()});
    expect_each_is_checked(part, here, key, checked);
  }
  EXPECT_GE(checked, 45);
}

TEST(RunDocument, ABrokenOneIsRefusedByName) {
  const auto document = ordered_json::parse(verify::text_of_document(whole_run()));
  const auto with = [&](const std::function<void(ordered_json&)>& change) {
    ordered_json changed = document;
    change(changed);
    return refusal_of(changed);
  };
  const auto at = [](const std::string& where) { return test::at("run_document", where); };
  EXPECT_EQ(with([](ordered_json& d) { d["nodes"] = 3; }), at("nodes"));
  EXPECT_EQ(with([](ordered_json& d) { d["arguments"][1]["value"] = "1"; }), at("arguments[1].value"));
  EXPECT_EQ(with([](ordered_json& d) { d["world"]["nodes"] = 1; }), at("world.nodes"));
  EXPECT_EQ(with([](ordered_json& d) { d["unresolved"][0]["lines"] = 1; }), at("unresolved[0].lines"));
  EXPECT_EQ(with([](ordered_json& d) { d["shardproof_run"] = 2; }), at("shardproof_run"));
  EXPECT_EQ(with([](ordered_json& d) { d["kind"] = "toml"; }), at("kind"));
  EXPECT_EQ(with([](ordered_json& d) { d["name"] = ""; }), at("name"));
  EXPECT_EQ(with([](ordered_json& d) { d["arguments"][0]["name"] = "--"; }), at("arguments[0].name"));
  EXPECT_EQ(with([](ordered_json& d) { d["arguments"][0]["line"] = -1; }), at("arguments[0].line"));
  EXPECT_EQ(with([](ordered_json& d) { d["arguments"][0]["from"] = "file"; }), at("arguments[0].from"));
  for (const char* required : {"kind", "name", "arguments"})
    EXPECT_EQ(with([&](ordered_json& d) { d.erase(required); }), at(required));
  EXPECT_EQ(with([](ordered_json& d) { d["arguments"][0].erase("name"); }), at("arguments[0].name"));
  EXPECT_EQ(with([](ordered_json& d) { d["unresolved"][0].erase("text"); }), at("unresolved[0].text"));
  EXPECT_EQ(with([](ordered_json& d) {
              d["arguments"] = ordered_json::array();
              for (int i = 0; i <= 10'000; ++i) d["arguments"].push_back({{"name", "bf16"}});
            }),
            at("arguments"));
  const std::string text = document.dump();
  for (std::size_t size = 20; size < text.size(); size += 37)
    EXPECT_EQ(test::refusal_of([&] { verify::read_run_text(text.substr(0, size), {}); }), at("the document"));
  EXPECT_EQ(test::refusal_of([&] {
              verify::read_run_text(text, {{"NODES", "2"}});
            }),
            test::at("bad_set", "--set NODES"));
}

TEST(RunDocument, ItsTextsDoNotSteerATerminal) {
  const RunArguments run = verify::read_run_document(
      "{\"shardproof_run\": 1, \"kind\": \"log\", \"name\": \"a\\u001b[2J\", \"arguments\": [],"
      " \"notes\": [\"\\nverified\"], \"world\": {\"from\": \"\\u001b\"}}");
  EXPECT_EQ(run.name, "a\\x1b[2J");
  EXPECT_EQ(run.notes.front(), "\\nverified");
  EXPECT_EQ(run.world_size_source, "\\x1b");
}

}  // namespace
