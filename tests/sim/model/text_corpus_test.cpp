// Proves that the samples of a text are its own bytes. Where documents are masked, the first byte of a
// document has no loss.

#include "sim/model/text_corpus.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>
#include <string>

#include "sim/base/error.h"

namespace {

using namespace sim;

RC_GTEST_PROP(TextCorpus, SamplesAreBytesOfTheText, ()) {
  const std::string text = *rc::gen::container<std::string>(rc::gen::inRange<char>(1, 127)) + "some text";
  const std::int64_t length = *rc::gen::inRange<std::int64_t>(1, 8);
  const TextCorpus corpus("text", text, length, *rc::gen::arbitrary<std::uint64_t>());
  const Sample sample = corpus.sample(*rc::gen::inRange(0, 1000));
  std::string window;
  for (const std::int32_t id : sample.tokens) window.push_back(static_cast<char>(id));
  window.push_back(static_cast<char>(sample.labels.back()));
  RC_ASSERT(std::ssize(window) == length + 1);
  RC_ASSERT(text.find(window) != std::string::npos);
  for (std::size_t i = 0; i + 1 < sample.tokens.size(); ++i)
    RC_ASSERT(sample.labels[i] == sample.tokens[i + 1]);
}

TEST(TextCorpus, MasksTheFirstByteOfADocument) {
  const TextCorpus corpus("text", "ab\n\ncd", 5, 0, true);
  const Sample sample = corpus.sample(0);
  for (std::size_t i = 0; i < sample.tokens.size(); ++i) {
    const bool begins = i >= 1 && sample.tokens[i] == '\n' && sample.tokens[i - 1] == '\n';
    EXPECT_EQ(sample.labels[i] == kIgnoredLabel, begins) << i;
  }
}

TEST(TextCorpus, RefusesWhatIsNoText) {
  const auto code = [](const std::string& text) -> std::string {
    try {
      TextCorpus("text", text, 4, 0);
    } catch (const Error& error) {
      return error.refusal().code;
    }
    return "";
  };
  EXPECT_EQ(code(""), "training_text");
  EXPECT_EQ(code("four"), "training_text");
  EXPECT_EQ(code("fives"), "");
  EXPECT_EQ(code(std::string("with\0zero", 9)), "training_text");
}

}  // namespace
