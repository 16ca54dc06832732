#include "verify/vocabulary/layout_list.h"

#include <boost/algorithm/string.hpp>
#include <exception>
#include <fmt/format.h>
#include <map>
#include <utility>

#include "sim/base/error.h"
#include "verify/output/json.h"

namespace verify {

namespace {

[[noreturn]] void refuse_layout_list(std::string given) {
  sim::refuse(
      {.code = "layout_syntax",
       .option = "--pipeline-model-parallel-layout",
       .numbers = std::move(given),
       .rule =
           "a layout in list form is JSON: a list of stages, each a list of embedding, decoder, mtp, loss",
       .hint = R"('[["embedding","decoder"],["decoder","loss"]]')"});
}

char layer_letter(const Json& name) {
  static const std::map<std::string, char> kLetters = {
      {"embedding", 'E'}, {"decoder", 't'}, {"mtp", 'm'}, {"loss", 'L'}};
  if (!name.is_text()) refuse_layout_list(fmt::format("{} is not a layer name", name.dump()));
  const std::string word = boost::to_lower_copy(boost::trim_copy(name.text()));
  const auto letter = kLetters.find(word);
  if (letter == kLetters.end()) refuse_layout_list(fmt::format("there is no layer '{}'", word));
  return letter->second;
}

}  // namespace

std::string layout_string(const std::string& text) {
  const std::size_t start = text.find_first_not_of(' ');
  if (start == std::string::npos || text[start] != '[') return text;
  Json stages;
  try {
    stages = parse_json(text);
  } catch (const std::exception& error) {
    refuse_layout_list(error.what());
  }
  std::string layout;
  for (const Json& stage : stages.elements()) {
    if (!stage.is_array()) refuse_layout_list(fmt::format("the stage {} is not a list", stage.dump()));
    for (const Json& name : stage.elements()) layout += layer_letter(name);
    layout += '|';
  }
  if (layout.empty()) refuse_layout_list("the list is empty");
  layout.pop_back();
  return layout;
}

}  // namespace verify
