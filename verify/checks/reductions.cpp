#include "verify/checks/reductions.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <fmt/format.h>

#include "verify/output/phrases.h"

namespace verify {

namespace {

struct Size {
  const char* name;
  std::int64_t (*of)(const sim::GptConfig&);
};

std::int64_t latent_size(const sim::GptConfig& model, std::int64_t sim::LatentSizes::*size) {
  return model.latent ? (*model.latent).*size : 0;
}

constexpr std::array kSizes = {
    Size{"layers", [](const sim::GptConfig& m) { return m.num_layers; }},
    Size{"hidden", [](const sim::GptConfig& m) { return m.hidden_size; }},
    Size{"ffn", [](const sim::GptConfig& m) { return m.ffn_hidden_size; }},
    Size{"heads", [](const sim::GptConfig& m) { return m.num_attention_heads; }},
    Size{"query groups", [](const sim::GptConfig& m) { return m.num_query_groups; }},
    Size{"channels of a head", [](const sim::GptConfig& m) { return m.latent ? 0 : m.head_size(); }},
    Size{"latent state of queries",
         [](const sim::GptConfig& m) { return latent_size(m, &sim::LatentSizes::q_lora_rank); }},
    Size{"latent state of keys",
         [](const sim::GptConfig& m) { return latent_size(m, &sim::LatentSizes::kv_lora_rank); }},
    Size{"window", [](const sim::GptConfig& m) { return std::max<std::int64_t>(m.window.size, 0); }},
    Size{"sequence", [](const sim::GptConfig& m) { return m.seq_length; }},
    Size{"sequences of a microbatch", [](const sim::GptConfig& m) { return m.micro_batch_size; }},
    Size{"vocabulary", [](const sim::GptConfig& m) { return m.vocab_size; }},
    Size{"experts", [](const sim::GptConfig& m) { return m.experts.num_experts; }},
    Size{"experts of a token",
         [](const sim::GptConfig& m) { return m.experts.num_experts > 0 ? m.experts.routing.topk : 0; }},
    Size{"ffn of an expert",
         [](const sim::GptConfig&
                m) { return m.experts.num_experts > 0 ? m.experts.moe_ffn_hidden_size : 0; }},
    Size{"ffn of shared experts",
         [](const sim::GptConfig& m) { return m.experts.shared_expert_intermediate_size; }}};

}  // namespace

std::vector<std::string> reductions(const sim::GptConfig& own, const sim::GptConfig& trained) {
  std::vector<std::string> all;
  for (const Size& size : kSizes) {
    const std::int64_t whole = size.of(own), reduced = size.of(trained);
    if (whole > 0 && whole != reduced)
      all.push_back(fmt::format("{} {} to {}", size.name, grouped_digits(whole), grouped_digits(reduced)));
  }
  return all;
}

}  // namespace verify
