#pragma once
// Checkpoints, tokenizers and texts small enough for tests. No LibTorch here.

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace osdn::test {

inline constexpr std::int64_t kVocab = 290;

/// Lines of short words over eight letters; the same for the same seed.
std::string tiny_text(std::uint64_t seed, int lines);
void put_file(const std::filesystem::path& path, const std::string& text);

/// A SentencePiece model of `pieces` pieces, learnt from tiny_text.
void write_tokenizer(const std::filesystem::path& path,
                     std::int32_t pieces = kVocab);

/// Two layers of DeltaNet with APF, eta far from 0.
nlohmann::json osdn_apf_model();
/// The same without a preconditioner.
nlohmann::json deltanet_model();

/// A DeltaNet whose second layer is softmax attention.
nlohmann::json hybrid_model();
/// The softmax reference.
nlohmann::json transformer_model();

/// Saves a checkpoint with first values of `seed`, wide enough that
/// predictions differ, into <run_dir>/checkpoints; returns its folder.
std::filesystem::path save_checkpoint(const std::filesystem::path& run_dir,
                                      std::int64_t step,
                                      const nlohmann::json& model,
                                      std::uint64_t seed = 7,
                                      const std::string& tokenizer = "");

/// log p of every next token after each input token, [inputs][vocabulary], from
/// one token at a time in float64, the state carried.
std::vector<std::vector<double>> token_by_token(
    const std::filesystem::path& run_dir,
    const std::vector<std::int32_t>& inputs);

}  // namespace osdn::test
