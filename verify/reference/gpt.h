#pragma once

/// A GPT model on one device for one sequence, with its gradients: embedding, pre-norm layers, final norm,
/// logits, and the loss of each token. A layer has self-attention or latent attention, and an MLP or experts.
/// Each document of the sequence attends to itself alone, and its positions begin at 0. Nothing is batched,
/// sharded, divided into stages or recomputed.
///
/// Shapes  S tokens. Weights have the names that the candidate gives them; a weight is a matrix
///         [outputs, inputs], or a vector stored as one row. The losses and their gradient are [1, S].
/// Source  Radford et al. 2019; Shoeybi et al. 2019.

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "verify/reference/cross_entropy.h"
#include "verify/reference/experts.h"
#include "verify/reference/latent_attention.h"
#include "verify/reference/norm.h"
#include "verify/reference/self_attention.h"
#include "verify/reference/shared_experts.h"

namespace verify::reference {

struct GptExpertSizes {
  std::vector<bool> layers = {};  // whether a layer has experts instead of an MLP
  std::int64_t experts = 0;
  RouterSetting router = {};
  bool shared = false;
};

struct GptSizes {
  std::int64_t layers = 1;
  SelfAttentionSizes attention = {};
  std::optional<LatentAttentionSizes> latent = {};  // in place of self-attention
  std::vector<int> merges = {};                     // by layer, those of its attention; empty: none
  std::vector<std::int64_t> windows = {};           // by layer, those of its attention; empty: none
  std::vector<std::int64_t> documents = {};         // their lengths, one after the other in the sequence
  std::int64_t vocabulary = 1;                      // without padding
  NormSetting norm = {};
  Activation activation = Activation::gelu_tanh;
  bool gated = false;
  bool learned_positions = true;
  bool tied = true;
  GptExpertSizes experts = {};
};

/// Returns the gradient of the logits of a layer's router that its own losses have, or an empty matrix.
template <typename Scalar>
using GptBalance = std::function<Matrix<Scalar>(std::int64_t layer, const Matrix<Scalar>& logits)>;

/// With a capacity: whether an expert of a layer takes a token of the sequence. Without it, an expert takes
/// the tokens that chose it.
using GptTakes = std::function<bool(std::int64_t layer, Eigen::Index token, Eigen::Index expert)>;

template <typename Scalar>
using NamedMatrices = std::map<std::string, Matrix<Scalar>>;

/// Sums of matrices by name, which collect the gradients of several sequences in any order.
template <typename Scalar>
class NamedSums {
 public:
  void add(const std::string& name, const Matrix<Scalar>& term) {
    Entry& entry = entries_[name];
    entry.sums.resize(static_cast<std::size_t>(term.size()));
    entry.rows = term.rows();
    for (Eigen::Index i = 0; i < term.size(); ++i)
      entry.sums[static_cast<std::size_t>(i)].add(term.data()[i]);
  }
  NamedMatrices<Scalar> times(const Scalar& factor) const {
    NamedMatrices<Scalar> all;
    for (const auto& [name, entry] : entries_) {
      const auto count = static_cast<Eigen::Index>(entry.sums.size());
      Matrix<Scalar> values(entry.rows, entry.rows == 0 ? 0 : count / entry.rows);
      for (Eigen::Index i = 0; i < count; ++i)
        values.data()[i] = entry.sums[static_cast<std::size_t>(i)].value_in_parts() * factor;
      all[name] = std::move(values);
    }
    return all;
  }

 private:
  struct Entry {
    std::vector<Sum<Scalar>> sums;
    Eigen::Index rows = 0;
  };
  std::map<std::string, Entry> entries_;
};

template <typename Scalar>
class Gpt {
 public:
  Gpt(const Number<Scalar>& number, const GptSizes& sizes, const NamedMatrices<Scalar>& weights,
      const Matrix<Scalar>& cosines, const Matrix<Scalar>& sines)
      : number_(number), sizes_(sizes), weights_(weights), cosines_(cosines), sines_(sines) {}

  /// The forward pass of a sequence through all layers, which the gradients start from.
  class Pass {
   public:
    /// The router of a layer that has experts.
    const Router<Scalar>& router(std::int64_t layer) const {
      return *layers_[static_cast<std::size_t>(layer)].router;
    }

   private:
    friend class Gpt;
    struct LayerExperts {
      std::vector<bool> has_tokens;  // by expert
      Experts<Scalar> experts;
      std::optional<SharedExperts<Scalar>> shared;
    };
    struct Layer {
      Normal<Scalar> input;                                // of the attention
      std::vector<SelfAttention<Scalar>> attentions = {};  // by document
      std::vector<LatentAttention<Scalar>> latent = {};    // by document, in their place
      Normal<Scalar> middle;                               // the input of the MLP or of the experts
      std::optional<Router<Scalar>> router = {};
      std::optional<Mlp<Scalar>> mlp = {};
      std::optional<LayerExperts> experts = {};
    };
    Ids tokens_;
    std::vector<Layer> layers_;
    Matrix<Scalar> hidden_;  // after the last part of a layer
  };

  /// Returns the pass of a sequence before its first layer. Each layer has a part up to its router, and one
  /// after it, because sequences that share a capacity choose experts together.
  Pass start(const Ids& tokens) const {
    Pass pass;
    pass.tokens_ = tokens;
    pass.hidden_ = embedded(tokens);
    return pass;
  }

  /// Takes a pass through the attention of layer i, and up to its router.
  void pass_attention(std::int64_t i, Pass& pass) const {
    const std::string name = name_of_layer(i);
    const Matrix<Scalar>& x = pass.hidden_;
    Normal<Scalar> input = normal(number_, x, sizes_.norm);
    const Matrix<Scalar> of_norm = norm_of(name + "input_layernorm", input);
    typename Pass::Layer layer;
    layer.input = std::move(input);
    pass.hidden_ = added(number_, x, of_documents(x, [&](Eigen::Index first, Eigen::Index length) {
                           const Matrix<Scalar> document = of_norm.middleRows(first, length);
                           if (sizes_.latent) {
                             layer.latent.push_back(latent_of(i, document));
                             return layer.latent.back().output();
                           }
                           layer.attentions.push_back(attention_of(i, document));
                           return layer.attentions.back().output();
                         }));
    layer.middle = normal(number_, pass.hidden_, sizes_.norm);
    if (has_experts(i)) {
      layer.router.emplace(number_, sizes_.experts.router, weight(name + "mlp.router.weight"),
                           weight(name + "mlp.router.expert_bias"),
                           norm_of(name + "pre_mlp_layernorm", layer.middle));
    }
    pass.layers_.push_back(std::move(layer));
  }

  /// Takes a pass through the MLP or the experts of layer i.
  void pass_mlp(std::int64_t i, Pass& pass, const GptTakes& takes = nullptr) const {
    const std::string name = name_of_layer(i);
    typename Pass::Layer& layer = pass.layers_[static_cast<std::size_t>(i)];
    const Matrix<Scalar> x = norm_of(name + "pre_mlp_layernorm", layer.middle);
    if (has_experts(i)) {
      layer.experts = experts(i, *layer.router, x, takes);
    } else {
      layer.mlp.emplace(number_, sizes_.activation, sizes_.gated, mlp_weights(name + "mlp."), x);
    }
    pass.hidden_ =
        added(number_, pass.hidden_, has_experts(i) ? output_of(*layer.experts) : layer.mlp->output());
  }

  /// Returns the loss of each token, [1, S], and adds the gradients of sum(loss * grad), with grad [1, S], to
  /// `sums`; weights of experts without tokens have none.
  Matrix<Scalar> losses_and_gradients(const Pass& pass, const Ids& labels, const Matrix<Scalar>& grad,
                                      NamedSums<Scalar>& sums,
                                      const GptBalance<Scalar>& balance = nullptr) const {
    const std::string norm = "decoder.final_layernorm", out = sizes_.tied ? kWords : "output_layer.weight";
    const Normal<Scalar> last = normal(number_, pass.hidden_, sizes_.norm);
    const Matrix<Scalar> x = norm_of(norm, last);
    const Matrix<Scalar>& output = weights_.at(out);
    const CrossEntropy<Scalar> loss(number_, linear<Scalar>(number_, x, output, {}), labels,
                                    {.vocabulary = sizes_.vocabulary, .ignored_id = -1});
    const auto of_output = linear_gradients<Scalar>(number_, x, output, loss.gradient(grad));
    sums.add(out, of_output.weight);
    Matrix<Scalar> back = norm_back(norm, last, of_output.x, sums);
    for (std::int64_t i = sizes_.layers; i-- > 0;) back = layer_back(i, pass, back, sums, balance);
    sums.add(kWords, embedding_gradient(number_, weights_.at(kWords), pass.tokens_, back));
    if (sizes_.learned_positions) {
      for_documents([&](Eigen::Index first, Eigen::Index length) {
        Matrix<Scalar> of_positions = zeros<Scalar>(back.rows(), back.cols());
        of_positions.topRows(length) = back.middleRows(first, length);
        sums.add(kPositions, of_positions);
      });
    }
    return loss.loss();
  }

 private:
  static constexpr const char* kWords = "embedding.word_embeddings.weight";
  static constexpr const char* kPositions = "embedding.position_embeddings.weight";

  Matrix<Scalar> embedded(const Ids& tokens) const {
    const Matrix<Scalar> words = embedding(weights_.at(kWords), tokens);
    if (!sizes_.learned_positions) return words;
    return added(number_, words, of_documents(words, [&](Eigen::Index, Eigen::Index length) {
                   return first_rows(weights_.at(kPositions), length);
                 }));
  }
  /// The weight with this name; an empty matrix if the model has none.
  Matrix<Scalar> weight(const std::string& name) const {
    const auto found = weights_.find(name);
    return found == weights_.end() ? Matrix<Scalar>() : found->second;
  }
  Matrix<Scalar> norm_of(const std::string& name, const Normal<Scalar>& x) const {
    return norm_of_normal(number_, x, weight(name + ".weight"), weight(name + ".bias"));
  }
  Matrix<Scalar> norm_back(const std::string& name, const Normal<Scalar>& x, const Matrix<Scalar>& grad,
                           NamedSums<Scalar>& sums) const {
    const auto of_norm = norm_gradients(number_, x, weight(name + ".weight"), grad, sizes_.norm);
    sums.add(name + ".weight", of_norm.weight);
    if (sizes_.norm.is_layer_norm) sums.add(name + ".bias", of_norm.bias);
    return of_norm.x;
  }
  void add_linear(const std::string& name, const LinearGradients<Scalar>& of_linear,
                  NamedSums<Scalar>& sums) const {
    sums.add(name + ".weight", of_linear.weight);
    if (weights_.contains(name + ".bias")) sums.add(name + ".bias", of_linear.bias);
  }

  void add_norm(const std::string& name, const HeadNorm<Scalar>& of_norm, NamedSums<Scalar>& sums) const {
    if (of_norm.weight.size() == 0) return;
    sums.add(name + ".weight", of_norm.weight);
    if (sizes_.norm.is_layer_norm) sums.add(name + ".bias", of_norm.bias);
  }

  // ---- documents

  template <typename Visit>
  void for_documents(const Visit& visit) const {
    Eigen::Index first = 0;
    for (const std::int64_t length : sizes_.documents) {
      visit(first, static_cast<Eigen::Index>(length));
      first += length;
    }
  }
  /// Puts what `rows_of` returns for each document, by its first row and its length, one below the other.
  template <typename RowsOf>
  Matrix<Scalar> of_documents(const Matrix<Scalar>& like, const RowsOf& rows_of) const {
    Matrix<Scalar> all(like.rows(), like.cols());
    for_documents([&](Eigen::Index first, Eigen::Index length) {
      all.middleRows(first, length) = rows_of(first, length);
    });
    return all;
  }
  static Matrix<Scalar> first_rows(const Matrix<Scalar>& m, Eigen::Index rows) {
    return m.size() == 0 ? m : Matrix<Scalar>(m.topRows(rows));
  }

  /// The attention of layer i over one document.
  SelfAttention<Scalar> attention_of(std::int64_t i, const Matrix<Scalar>& x) const {
    const std::string name = name_of_layer(i);
    SelfAttentionSizes sizes = sizes_.attention;
    if (!sizes_.merges.empty()) sizes.merges = sizes_.merges[static_cast<std::size_t>(i)];
    if (!sizes_.windows.empty()) sizes.sight.window = sizes_.windows[static_cast<std::size_t>(i)];
    sizes.sequence = x.rows();
    sizes.norm = sizes_.norm;
    return {number_,
            sizes,
            {.qkv_weight = weight(name + "self_attention.linear_qkv.weight"),
             .qkv_bias = weight(name + "self_attention.linear_qkv.bias"),
             .proj_weight = weight(name + "self_attention.linear_proj.weight"),
             .proj_bias = weight(name + "self_attention.linear_proj.bias"),
             .cosines = first_rows(cosines_, x.rows()),
             .sines = first_rows(sines_, x.rows()),
             .dropout = {},
             .q_norm = {weight(name + "self_attention.q_layernorm.weight"),
                        weight(name + "self_attention.q_layernorm.bias")},
             .k_norm = {weight(name + "self_attention.k_layernorm.weight"),
                        weight(name + "self_attention.k_layernorm.bias")}},
            x};
  }

  /// The latent attention of layer i over one document.
  LatentAttention<Scalar> latent_of(std::int64_t i, const Matrix<Scalar>& x) const {
    const std::string name = name_of_layer(i) + "self_attention.";
    LatentAttentionSizes sizes = *sizes_.latent;
    if (!sizes_.merges.empty()) sizes.merges = sizes_.merges[static_cast<std::size_t>(i)];
    sizes.sequence = x.rows();
    sizes.norm = sizes_.norm;
    return {number_,
            sizes,
            {.q_down = weight(name + "linear_q_down_proj.weight"),
             .q_up = weight(name_of_queries(name) + ".weight"),
             .kv_down = weight(name + "linear_kv_down_proj.weight"),
             .kv_up = weight(name + "linear_kv_up_proj.weight"),
             .proj = weight(name + "linear_proj.weight"),
             .proj_bias = weight(name + "linear_proj.bias"),
             .cosines = first_rows(cosines_, x.rows()),
             .sines = first_rows(sines_, x.rows()),
             .dropout = {},
             .q_norm = {weight(name + "q_layernorm.weight"), weight(name + "q_layernorm.bias")},
             .kv_norm = {weight(name + "kv_layernorm.weight"), weight(name + "kv_layernorm.bias")}},
            x};
  }
  /// The layer that gives queries of latent attention: from their latent state, or from the hidden state.
  std::string name_of_queries(const std::string& name) const {
    return name +
           (weights_.contains(name + "linear_q_down_proj.weight") ? "linear_q_up_proj" : "linear_q_proj");
  }

  // ---- layers

  static std::string name_of_layer(std::int64_t i) { return "decoder.layers." + std::to_string(i) + "."; }
  static std::string name_of_expert(std::int64_t layer, std::size_t e) {
    return name_of_layer(layer) + "mlp.experts.local_experts." + std::to_string(e) + ".";
  }

  /// Returns the gradient of the input of layer i from that of its output, and adds the gradients of the
  /// layer's weights to `sums`.
  Matrix<Scalar> layer_back(std::int64_t i, const Pass& pass, const Matrix<Scalar>& grad,
                            NamedSums<Scalar>& sums, const GptBalance<Scalar>& balance) const {
    const std::string name = name_of_layer(i);
    const typename Pass::Layer& layer = pass.layers_[static_cast<std::size_t>(i)];
    const Matrix<Scalar> of_mlp = has_experts(i) ? experts_back(i, layer, grad, sums, balance)
                                                 : mlp_back(name + "mlp.", *layer.mlp, grad, sums);
    const Matrix<Scalar> grad_middle =
        added(number_, grad, norm_back(name + "pre_mlp_layernorm", layer.middle, of_mlp, sums));
    std::size_t document = 0;
    const Matrix<Scalar> back = of_documents(grad, [&](Eigen::Index first, Eigen::Index length) {
      const Matrix<Scalar> own = grad_middle.middleRows(first, length);
      return sizes_.latent
                 ? latent_back(name + "self_attention.", layer.latent[document++], own, sums)
                 : attention_back(name + "self_attention.", layer.attentions[document++], own, sums);
    });
    return added(number_, grad_middle, norm_back(name + "input_layernorm", layer.input, back, sums));
  }

  Matrix<Scalar> attention_back(const std::string& name, const SelfAttention<Scalar>& attention,
                                const Matrix<Scalar>& grad, NamedSums<Scalar>& sums) const {
    const auto gradients = attention.gradients(grad);
    add_linear(name + "linear_qkv", gradients.qkv, sums);
    add_linear(name + "linear_proj", gradients.proj, sums);
    add_norm(name + "q_layernorm", gradients.q_norm, sums);
    add_norm(name + "k_layernorm", gradients.k_norm, sums);
    return gradients.x;
  }
  Matrix<Scalar> latent_back(const std::string& name, const LatentAttention<Scalar>& attention,
                             const Matrix<Scalar>& grad, NamedSums<Scalar>& sums) const {
    const auto gradients = attention.gradients(grad);
    if (gradients.q_down.weight.size() > 0) add_linear(name + "linear_q_down_proj", gradients.q_down, sums);
    add_linear(name_of_queries(name), gradients.q_up, sums);
    add_linear(name + "linear_kv_down_proj", gradients.kv_down, sums);
    add_linear(name + "linear_kv_up_proj", gradients.kv_up, sums);
    add_linear(name + "linear_proj", gradients.proj, sums);
    add_norm(name + "q_layernorm", gradients.q_norm, sums);
    add_norm(name + "kv_layernorm", gradients.kv_norm, sums);
    return gradients.x;
  }

  bool has_experts(std::int64_t i) const {
    return !sizes_.experts.layers.empty() && sizes_.experts.layers[static_cast<std::size_t>(i)];
  }
  MlpWeights<Scalar> mlp_weights(const std::string& name) const {
    return {.fc1_weight = weight(name + "linear_fc1.weight"),
            .fc1_bias = weight(name + "linear_fc1.bias"),
            .fc2_weight = weight(name + "linear_fc2.weight"),
            .fc2_bias = weight(name + "linear_fc2.bias")};
  }
  template <typename Layer>
  Matrix<Scalar> mlp_back(const std::string& name, const Layer& mlp, const Matrix<Scalar>& grad,
                          NamedSums<Scalar>& sums) const {
    const auto of_mlp = mlp.gradients(grad);
    add_linear(name + "linear_fc1", of_mlp.fc1, sums);
    add_linear(name + "linear_fc2", of_mlp.fc2, sums);
    if constexpr (requires { of_mlp.gate_weight; })
      if (of_mlp.gate_weight.size() > 0) sums.add(name + "gate_weight", of_mlp.gate_weight);
    return of_mlp.x;
  }

  /// Sends x through the experts of layer i.
  typename Pass::LayerExperts experts(std::int64_t i, const Router<Scalar>& router, const Matrix<Scalar>& x,
                                      const GptTakes& takes) const {
    const std::string name = name_of_layer(i) + "mlp.";
    const auto takes_token = [&](Eigen::Index t, Eigen::Index e) {
      return takes ? takes(i, t, e) : router.is_chosen(t, e);
    };
    // An expert without tokens has no output and no gradient, and needs no weights.
    std::vector<bool> has_tokens(static_cast<std::size_t>(sizes_.experts.experts));
    for (Eigen::Index t = 0; t < x.rows(); ++t)
      for (std::size_t e = 0; e < has_tokens.size(); ++e)
        has_tokens[e] = has_tokens[e] || takes_token(t, static_cast<Eigen::Index>(e));
    std::vector<MlpWeights<Scalar>> weights(has_tokens.size());
    for (std::size_t e = 0; e < weights.size(); ++e)
      if (has_tokens[e]) weights[e] = mlp_weights(name_of_expert(i, e));
    Experts<Scalar> experts(number_, sizes_.activation, sizes_.gated, std::move(weights), x,
                            router.probabilities(), takes_token);
    typename Pass::LayerExperts all{
        .has_tokens = std::move(has_tokens), .experts = std::move(experts), .shared = std::nullopt};
    if (sizes_.experts.shared)
      all.shared.emplace(number_, sizes_.activation, sizes_.gated, mlp_weights(name + "shared_experts."),
                         weight(name + "shared_experts.gate_weight"), x);
    return all;
  }
  Matrix<Scalar> output_of(const typename Pass::LayerExperts& own) const {
    return own.shared ? added(number_, own.experts.output(), own.shared->output()) : own.experts.output();
  }
  Matrix<Scalar> experts_back(std::int64_t i, const typename Pass::Layer& layer, const Matrix<Scalar>& grad,
                              NamedSums<Scalar>& sums, const GptBalance<Scalar>& balance) const {
    const typename Pass::LayerExperts& own = *layer.experts;
    const std::string name = name_of_layer(i) + "mlp.";
    const auto of_experts = own.experts.gradients(grad);
    for (std::size_t e = 0; e < own.has_tokens.size(); ++e) {
      if (!own.has_tokens[e]) continue;
      add_linear(name_of_expert(i, e) + "linear_fc1", of_experts.fc1[e], sums);
      add_linear(name_of_expert(i, e) + "linear_fc2", of_experts.fc2[e], sums);
    }
    const auto of_router = layer.router->gradients(
        of_experts.probabilities, balance ? balance(i, layer.router->logits()) : Matrix<Scalar>());
    sums.add(name + "router.weight", of_router.weight);
    const Matrix<Scalar> back = added(number_, of_experts.x, of_router.x);
    return own.shared ? added(number_, back, mlp_back(name + "shared_experts.", *own.shared, grad, sums))
                      : back;
  }

  Number<Scalar> number_;
  GptSizes sizes_;
  const NamedMatrices<Scalar>& weights_;
  Matrix<Scalar> cosines_, sines_;
};

}  // namespace verify::reference
