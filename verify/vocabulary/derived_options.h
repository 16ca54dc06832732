#pragma once

/// Sizes that follow from several options, and the options that they need.
///
/// Errors  missing_option: a required option was not given.

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <vector>

namespace verify {

class Settings;

/// Returns the value of an option, and refuses its absence.
std::int64_t required_number(const Settings& settings, const std::string& name);

/// Returns the options that model_shape() requires and that are not given.
std::vector<std::string> missing_of_model_shape(const Settings& settings);

/// Returns the chunks that a pipeline rank holds, from the one option that gives them; nothing for a pipeline
/// that does not interleave. For Megatron's own options, one chunk is no interleaving. If the layers of a
/// chunk are given, the divisions are rounded down; megatron_validation.h refuses those with a remainder.
std::optional<std::int64_t> virtual_pipeline_size(const Settings& settings);

/// Returns the key and value heads; nothing where neither they nor the attention heads are given.
std::optional<std::int64_t> query_groups(const Settings& settings);

/// Returns the columns of the MLP, F; nothing where neither it nor the hidden size is given.
std::optional<std::int64_t> ffn_hidden_size(const Settings& settings);

/// Returns the quotient as Python divides whole numbers, rounded towards minus infinity; nothing where a
/// number is not known, and for a division by zero.
std::optional<std::int64_t> floored(std::optional<std::int64_t> dividend,
                                    std::optional<std::int64_t> divisor);

/// Returns the product; nothing if a factor is not known or the product does not fit into 64 bits.
std::optional<std::int64_t> product_of(std::initializer_list<std::optional<std::int64_t>> factors);

}  // namespace verify
