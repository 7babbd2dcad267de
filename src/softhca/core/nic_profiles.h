// SPDX-License-Identifier: BSD-3-Clause
// Model files: the parameters of an adapter, each with its source. Those of src/softhca/models are
// the profiles, and part of the library; users have files of the same form.
#pragma once

#include <array>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "softhca/core/nic_parameters.h"

namespace softhca {

// What group_of() returns, "" apart.
constexpr std::array<std::string_view, 4> kGroups = {"latency", "data", "queue-pair", "port"};

// What a model file says.
struct Model {
    NicParameters nic = {};
    std::string_view personality = "default";  // of the adapter: NAME[,RULE=NUMBER,...]
};

// Reads the text of a model file, to which the model then refers; docs/softhca/softhca.md has its
// form. On error, returns a text that names the line and the choices, and the model is of no use.
std::optional<std::string> parse_model(std::string_view text, Model& model);

// The files of src/softhca/models, in the order of the profiles.
struct ModelText {
    std::string_view name, text;
};
std::span<const ModelText> model_texts();

// The profile of that name; nullptr if there is none.
const Model* find_model(std::string_view name);
const NicParameters* find_profile(std::string_view name);
// "ideal, graphene, infini, ..."
std::string profile_names();

}  // namespace softhca
