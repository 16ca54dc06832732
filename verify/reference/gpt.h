#pragma once

/// A GPT model on one device for one sequence, with its gradients: embedding, pre-norm layers, final norm,
/// logits, and the loss of each token. A layer has an MLP or experts. Each document of the sequence attends to
/// itself alone, and its positions begin at 0. Nothing is batched, sharded, divided into stages or recomputed.
///
/// Shapes  S tokens. Weights have the names that the candidate gives them; a weight is a matrix
///         [outputs, inputs], or a vector stored as one row. The losses and their gradient are [1, S].
/// Source  Radford et al. 2019; Shoeybi et al. 2019.

#include <functional>
#include <map>
#include <string>
#include <utility>

#include "verify/reference/cross_entropy.h"
#include "verify/reference/experts.h"
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
  std::vector<std::int64_t> documents = {};  // their lengths, one after the other in the sequence
  std::int64_t vocabulary = 1;  // without padding
  NormSetting norm = {};
  Activation activation = Activation::gelu_tanh;
  bool gated = false;
  bool learned_positions = true;
  bool tied = true;
  GptExpertSizes experts = {};
};

/// What a training does with the routers of the layers that have experts.
template <typename Scalar>
struct GptRouters {
  /// Takes the router of a layer, after it has chosen experts.
  std::function<void(std::int64_t layer, const Router<Scalar>&)> routed = nullptr;
  /// Returns the gradient of the logits of a layer's router that its own losses have, or an empty matrix.
  std::function<Matrix<Scalar>(std::int64_t layer, const Matrix<Scalar>& logits)> balance = nullptr;
  /// With a capacity: whether an expert of a layer takes a token of the sequence. Without it, an expert takes
  /// the tokens that chose it.
  std::function<bool(std::int64_t layer, Eigen::Index token, Eigen::Index expert)> takes = nullptr;
};

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

  /// Runs all layers, and gives their routers to `routers`.
  void route(const Ids& tokens, const GptRouters<Scalar>& routers) const {
    Matrix<Scalar> hidden = embedded(tokens);
    for (std::int64_t i = 0; i < sizes_.layers; ++i) hidden = layer_output(i, hidden, routers);
  }
  /// Returns the input of the first layer.
  Matrix<Scalar> embedded(const Ids& tokens) const {
    const Matrix<Scalar> words = embedding(weights_.at(kWords), tokens);
    if (!sizes_.learned_positions) return words;
    return added(number_, words, of_documents(words, [&](Eigen::Index, Eigen::Index length) {
                   return first_rows(weights_.at(kPositions), length);
                 }));
  }
  /// Runs layer i, and gives its router to `routers`.
  Matrix<Scalar> layer_output(std::int64_t i, const Matrix<Scalar>& x,
                              const GptRouters<Scalar>& routers) const {
    NamedSums<Scalar> none;
    return layer(i, x, nullptr, none, routers);
  }

  /// Returns the loss of each token, [1, S], and adds the gradients of sum(loss * grad), with grad [1, S], to
  /// `sums`; weights of experts without tokens have none.
  Matrix<Scalar> losses_and_gradients(const Ids& tokens, const Ids& labels, const Matrix<Scalar>& grad,
                                      NamedSums<Scalar>& sums, const GptRouters<Scalar>& routers = {}) const {
    std::vector<Matrix<Scalar>> hidden = {embedded(tokens)};
    for (std::int64_t i = 0; i < sizes_.layers; ++i)
      hidden.push_back(layer(i, hidden.back(), nullptr, sums, routers));
    const Matrix<Scalar> normal = norm_of("decoder.final_layernorm", hidden.back());
    const Matrix<Scalar>& output = weights_.at(sizes_.tied ? kWords : "output_layer.weight");
    const CrossEntropy<Scalar> loss(number_, linear<Scalar>(number_, normal, output, {}), labels,
                                    {.vocabulary = sizes_.vocabulary, .ignored_id = -1});
    const auto of_output = linear_gradients<Scalar>(number_, normal, output, loss.gradient(grad));
    sums.add(sizes_.tied ? kWords : "output_layer.weight", of_output.weight);
    Matrix<Scalar> back = norm_back("decoder.final_layernorm", hidden.back(), of_output.x, sums);
    for (std::int64_t i = sizes_.layers; i-- > 0;)
      back = layer(i, hidden[static_cast<std::size_t>(i)], &back, sums, routers);
    sums.add(kWords, embedding_gradient(number_, weights_.at(kWords), tokens, back));
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

  /// The weight with this name; an empty matrix if the model has none.
  Matrix<Scalar> weight(const std::string& name) const {
    const auto found = weights_.find(name);
    return found == weights_.end() ? Matrix<Scalar>() : found->second;
  }
  Matrix<Scalar> norm_of(const std::string& name, const Matrix<Scalar>& x) const {
    return norm(number_, x, weight(name + ".weight"), weight(name + ".bias"), sizes_.norm);
  }
  Matrix<Scalar> norm_back(const std::string& name, const Matrix<Scalar>& x, const Matrix<Scalar>& grad,
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

  /// The attention of one document.
  SelfAttention<Scalar> attention_of(const std::string& name, const Matrix<Scalar>& x) const {
    SelfAttentionSizes sizes = sizes_.attention;
    sizes.sequence = x.rows();
    return {number_,
            sizes,
            {.qkv_weight = weight(name + "self_attention.linear_qkv.weight"),
             .qkv_bias = weight(name + "self_attention.linear_qkv.bias"),
             .proj_weight = weight(name + "self_attention.linear_proj.weight"),
             .proj_bias = weight(name + "self_attention.linear_proj.bias"),
             .cosines = first_rows(cosines_, x.rows()),
             .sines = first_rows(sines_, x.rows()),
             .dropout = {}},
            x};
  }

  /// Without `grad`, returns the output of layer i. With `grad`, the gradient of that output, it returns the
  /// gradient of the layer's input and adds the gradients of the layer's weights to `sums`.
  Matrix<Scalar> layer(std::int64_t i, const Matrix<Scalar>& x, const Matrix<Scalar>* grad,
                       NamedSums<Scalar>& sums, const GptRouters<Scalar>& routers) const {
    const std::string name = "decoder.layers." + std::to_string(i) + ".";
    const Matrix<Scalar> input = norm_of(name + "input_layernorm", x);
    std::vector<SelfAttention<Scalar>> attentions;
    for_documents([&](Eigen::Index first, Eigen::Index length) {
      attentions.push_back(attention_of(name, input.middleRows(first, length)));
    });
    auto attention = attentions.begin();
    const Matrix<Scalar> middle =
        added(number_, x, of_documents(x, [&](Eigen::Index, Eigen::Index) { return attention++->output(); }));
    const Matrix<Scalar> normal = norm_of(name + "pre_mlp_layernorm", middle);
    const Matrix<Scalar> of_mlp =
        has_experts(i) ? experts(i, normal, grad, sums, routers) : mlp(name + "mlp.", normal, grad, sums);
    if (grad == nullptr) return added(number_, middle, of_mlp);
    const Matrix<Scalar> grad_middle =
        added(number_, *grad, norm_back(name + "pre_mlp_layernorm", middle, of_mlp, sums));
    attention = attentions.begin();
    const Matrix<Scalar> grad_input = of_documents(x, [&](Eigen::Index first, Eigen::Index length) {
      const auto of_attention = attention++->gradients(grad_middle.middleRows(first, length));
      add_linear(name + "self_attention.linear_qkv", of_attention.qkv, sums);
      add_linear(name + "self_attention.linear_proj", of_attention.proj, sums);
      return of_attention.x;
    });
    return added(number_, grad_middle, norm_back(name + "input_layernorm", x, grad_input, sums));
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

  /// The MLP of a layer, as layer() does it.
  Matrix<Scalar> mlp(const std::string& name, const Matrix<Scalar>& x, const Matrix<Scalar>* grad,
                     NamedSums<Scalar>& sums) const {
    const Mlp<Scalar> mlp(number_, sizes_.activation, sizes_.gated, mlp_weights(name), x);
    if (grad == nullptr) return mlp.output();
    const auto of_mlp = mlp.gradients(*grad);
    add_linear(name + "linear_fc1", of_mlp.fc1, sums);
    add_linear(name + "linear_fc2", of_mlp.fc2, sums);
    return of_mlp.x;
  }

  /// The experts of layer i, as layer() does it.
  Matrix<Scalar> experts(std::int64_t i, const Matrix<Scalar>& x, const Matrix<Scalar>* grad,
                         NamedSums<Scalar>& sums, const GptRouters<Scalar>& routers) const {
    const std::string name = "decoder.layers." + std::to_string(i) + ".mlp.";
    const auto name_of = [&](std::size_t e) {
      return name + "experts.local_experts." + std::to_string(e) + ".";
    };
    const Router<Scalar> router(number_, sizes_.experts.router, weight(name + "router.weight"),
                                weight(name + "router.expert_bias"), x);
    if (grad == nullptr && routers.routed) routers.routed(i, router);
    const auto takes = [&](Eigen::Index t, Eigen::Index e) {
      return routers.takes ? routers.takes(i, t, e) : router.is_chosen(t, e);
    };
    // An expert without tokens has no output and no gradient, and needs no weights.
    std::vector<bool> has_tokens(static_cast<std::size_t>(sizes_.experts.experts));
    for (Eigen::Index t = 0; t < x.rows(); ++t)
      for (std::size_t e = 0; e < has_tokens.size(); ++e)
        has_tokens[e] = has_tokens[e] || takes(t, static_cast<Eigen::Index>(e));
    std::vector<MlpWeights<Scalar>> weights(has_tokens.size());
    for (std::size_t e = 0; e < weights.size(); ++e)
      if (has_tokens[e]) weights[e] = mlp_weights(name_of(e));
    const Experts<Scalar> experts(number_, sizes_.activation, sizes_.gated, weights, x,
                                  router.probabilities(), takes);
    if (grad == nullptr) {
      if (!sizes_.experts.shared) return experts.output();
      return added(number_, experts.output(), shared_experts(name + "shared_experts.", x).output());
    }
    const auto of_experts = experts.gradients(*grad);
    for (std::size_t e = 0; e < weights.size(); ++e) {
      if (!has_tokens[e]) continue;
      add_linear(name_of(e) + "linear_fc1", of_experts.fc1[e], sums);
      add_linear(name_of(e) + "linear_fc2", of_experts.fc2[e], sums);
    }
    const auto of_router = router.gradients(
        of_experts.probabilities, routers.balance ? routers.balance(i, router.logits()) : Matrix<Scalar>());
    sums.add(name + "router.weight", of_router.weight);
    const Matrix<Scalar> back = added(number_, of_experts.x, of_router.x);
    if (!sizes_.experts.shared) return back;
    return added(number_, back, shared_experts_back(name + "shared_experts.", x, *grad, sums));
  }

  SharedExperts<Scalar> shared_experts(const std::string& name, const Matrix<Scalar>& x) const {
    return {number_, sizes_.activation, sizes_.gated, mlp_weights(name), weight(name + "gate_weight"), x};
  }
  Matrix<Scalar> shared_experts_back(const std::string& name, const Matrix<Scalar>& x,
                                     const Matrix<Scalar>& grad, NamedSums<Scalar>& sums) const {
    const auto of_shared = shared_experts(name, x).gradients(grad);
    add_linear(name + "linear_fc1", of_shared.fc1, sums);
    add_linear(name + "linear_fc2", of_shared.fc2, sums);
    if (of_shared.gate_weight.size() > 0) sums.add(name + "gate_weight", of_shared.gate_weight);
    return of_shared.x;
  }

  Number<Scalar> number_;
  GptSizes sizes_;
  const NamedMatrices<Scalar>& weights_;
  Matrix<Scalar> cosines_, sines_;
};

}  // namespace verify::reference
