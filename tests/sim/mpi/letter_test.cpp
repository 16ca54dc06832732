// Proves that a letter between processes comes as it was sent, and that letters that disagree are refused by
// name.

#include "sim/mpi/letter.h"

#include <cstddef>
#include <gtest/gtest.h>
#include <string>

#include "sim/mpi/letter_agreement.h"
#include "tests/support/refusal_code.h"

namespace {

using namespace sim;

Letter letter(Operation operation) {
  Letter letter;
  letter.key = {3, 1, "tp[2]", LetterKind::collective, 7};
  letter.operation = operation;
  letter.site = "site";
  letter.file = "file.cpp";
  return letter;
}

TEST(Letters, ComeAsTheyWereSent) {
  Letter sent = letter(Operation::new_group);
  sent.dtype = DType::bf16;
  sent.reduce_op = ReduceOp::average;
  sent.root = -1;
  sent.color = -2;
  sent.split_key = 5;
  sent.count = 1234567890123;
  sent.name = "pair";
  sent.members = {4, 0};
  sent.line = 12;
  sent.payload = {std::byte{1}, std::byte{0}, std::byte{255}};
  const Letter got = decoded_letter(encoded_letter(sent), 3);
  EXPECT_EQ(got.key, sent.key);
  EXPECT_EQ(got.payload, sent.payload);
  EXPECT_EQ(encoded_letter(got), encoded_letter(sent));
}

std::string disagreement(const Letter& own, const Letter& other) {
  return test::refusal_code([&] { require_agreement(own, other); });
}

TEST(Letters, ThatDisagreeAreRefusedByName) {
  const Letter own = letter(Operation::broadcast);
  EXPECT_EQ(disagreement(own, own), "none");
  EXPECT_EQ(disagreement(own, letter(Operation::all_reduce)), "collective_type_mismatch");
  EXPECT_EQ(disagreement(own, letter(Operation::split)), "group_not_created_by_all");
  Letter other = own;
  other.root = 1;
  EXPECT_EQ(disagreement(own, other), "root_mismatch");
  other.dtype = DType::i32;
  EXPECT_EQ(disagreement(own, other), "collective_dtype_mismatch");
  Letter group = letter(Operation::new_group);
  group.name = "other";
  EXPECT_EQ(disagreement(letter(Operation::new_group), group), "group_order_mismatch");
  Letter message = letter(Operation::send);
  message.count = 3;
  EXPECT_EQ(disagreement(letter(Operation::recv), message), "message_size_mismatch");
  message.dtype = DType::bf16;
  EXPECT_EQ(disagreement(letter(Operation::recv), message), "message_dtype_mismatch");
}

}  // namespace
