#include "verify/run_arguments/yaml_tree.h"

#include <fmt/format.h>
#include <sstream>
#include <utility>
#include <yaml-cpp/depthguard.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/mark.h>
#include <yaml-cpp/parser.h>

#include "sim/base/printable_text.h"
#include "verify/output/refusal_table.h"

namespace verify {

namespace {

int line_of(const YAML::Mark& mark) { return mark.line + 1; }

/// Builds the documents, as the parser meets their parts.
class YamlBuilder : public YAML::EventHandler {
 public:
  std::vector<YamlNode> documents;

  /// The parser begins the same document again, for ever, at text that it cannot take.
  void OnDocumentStart(const YAML::Mark& mark) override {
    if (mark.pos == document_) throw YAML::ParserException(mark, "text that is no document");
    document_ = mark.pos;
  }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t /*anchor*/) override {
    put({YamlNode::Kind::scalar, line_of(mark), "null", {}});
  }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t /*anchor*/) override {
    refuse_by("run_yaml_alias", fmt::format("line {}", line_of(mark)));
  }
  void OnScalar(const YAML::Mark& mark, const std::string& /*tag*/, YAML::anchor_t /*anchor*/,
                const std::string& value) override {
    put({YamlNode::Kind::scalar, line_of(mark), value, {}});
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string& /*tag*/, YAML::anchor_t /*anchor*/,
                       YAML::EmitterStyle::value /*style*/) override {
    open_.push_back({{YamlNode::Kind::list, line_of(mark), "", {}}, false});
  }
  void OnSequenceEnd() override { close(); }
  void OnMapStart(const YAML::Mark& mark, const std::string& /*tag*/, YAML::anchor_t /*anchor*/,
                  YAML::EmitterStyle::value /*style*/) override {
    open_.push_back({{YamlNode::Kind::map, line_of(mark), "", {}}, false});
  }
  void OnMapEnd() override { close(); }

 private:
  struct Open {
    YamlNode node;
    bool has_name = false;  // the next node is a value
  };

  void put(YamlNode node) {
    if (++nodes_ > kMostYamlNodes)
      refuse_by("run_file_size/yaml", fmt::format("line {}", node.line), kMostYamlNodes);
    if (open_.empty()) {
      documents.push_back(std::move(node));
      return;
    }
    Open& parent = open_.back();
    const bool is_name = parent.node.is_map() && !parent.has_name;
    if (is_name) {
      parent.node.entries.push_back({std::move(node.text), node.line, {}});
    } else if (parent.node.is_map()) {
      parent.node.entries.back().value = std::move(node);
    } else {
      parent.node.entries.push_back({"", node.line, std::move(node)});
    }
    parent.has_name = is_name;
  }

  void close() {
    YamlNode node = std::move(open_.back().node);
    open_.pop_back();
    put(std::move(node));
  }

  std::vector<Open> open_;  // the outermost one first
  std::size_t nodes_ = 0;
  int document_ = -1;  // where the current one begins
};

}  // namespace

std::vector<YamlNode> read_yaml(std::string_view text) {
  std::istringstream stream{std::string(text)};
  YamlBuilder builder;
  try {
    YAML::Parser parser(stream);
    while (parser.HandleNextDocument(builder)) {
    }
  } catch (const YAML::Exception& error) {
    const bool is_too_deep =
        dynamic_cast<const YAML::DeepRecursion*>(&error) != nullptr;  // it says "bad file"
    refuse_by("run_yaml_syntax", fmt::format("line {}", line_of(error.mark)),
              is_too_deep ? "nested too deep" : sim::printable_text(error.msg));
  }
  return std::move(builder.documents);
}

std::vector<std::string> words_of(const YamlNode& node) {
  if (node.kind == YamlNode::Kind::scalar) return {node.text};
  std::vector<std::string> words;
  for (const YamlEntry& entry : node.entries)
    if (!node.is_map() && entry.value.kind == YamlNode::Kind::scalar) words.push_back(entry.value.text);
  return words;
}

}  // namespace verify
