// osdn-convert: models of the public Python code, in and out.

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/log_softmax.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cmath>
#include <iostream>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "command_line.h"
#include "osdn/checkpoint/weight_files.h"
#include "osdn/core/concat.h"
#include "osdn/core/error.h"
#include "osdn/core/file.h"
#include "osdn/core/log.h"
#include "osdn/core/run_main.h"
#include "osdn/core/version.h"
#include "osdn/interchange/folders.h"
#include "osdn/interchange/weights.h"
#include "osdn/model/language_model.h"
#include "osdn/ops/host_tensors.h"

namespace {

namespace fs = std::filesystem;
using osdn::concat;
using osdn::DType;
using osdn::Error;
using osdn::ExitCode;
using osdn::TensorView;

at::Tensor tensor_of(const TensorView& tensor) {
  return at::from_blob(tensor.data, tensor.shape,
                       osdn::ops::scalar_type_of(tensor.dtype));
}

// ---- check -----------------------------------------------------------------

struct CheckArguments {
  fs::path folder;
  std::string dtype = "fp32";
  std::optional<double> tolerance;
};

/// expected.safetensors: input_ids [rows, T], logits [rows, T, vocab], and, if
/// it is there, the mean loss over the rows' next tokens.
struct Expected {
  at::Tensor input_ids;
  at::Tensor logits;
  std::optional<double> loss;
};

Expected read_expected(const osdn::checkpoint::SafetensorsFile& file,
                       std::int64_t vocab) {
  Expected expected{tensor_of(file.tensor("input_ids")).to(at::kLong),
                    tensor_of(file.tensor("logits")).to(at::kDouble),
                    std::nullopt};
  const at::Tensor& ids = expected.input_ids;
  const bool fits = ids.dim() == 2 && ids.numel() > 0 &&
                    expected.logits.dim() == 3 &&
                    expected.logits.sizes() ==
                        at::IntArrayRef({ids.size(0), ids.size(1), vocab}) &&
                    ids.min().item<std::int64_t>() >= 0 &&
                    ids.max().item<std::int64_t>() < vocab;
  if (!fits) {
    throw Error(concat(file.path().string(), ": input_ids is ", ids.sizes(),
                       " and logits ", expected.logits.sizes(),
                       "; expected [rows, T] with ids from 0 to ", vocab - 1,
                       " and [rows, T, ", vocab, "]"),
                ExitCode::kBadInput);
  }
  if (file.contains("loss")) {
    expected.loss = tensor_of(file.tensor("loss")).item().toDouble();
  }
  return expected;
}

osdn::model::LanguageModel load_public_model(const fs::path& folder,
                                             at::ScalarType dtype) {
  const fs::path config_file = folder / "config.json";
  auto imported = osdn::interchange::hf_config_to_model(
      osdn::read_file(config_file), config_file.string());
  const osdn::checkpoint::WeightFiles files(folder);
  const auto weights =
      osdn::interchange::import_weights(files, imported, std::nullopt);
  for (const std::string& warning : imported.warnings) {
    osdn::log::warn(warning);
  }
  osdn::model::LanguageModel model(imported.model, dtype, at::kCPU);
  // Both are in the order of the parameter table.
  for (std::size_t i = 0; i < weights.views().size(); ++i) {
    at::Tensor parameter = model.parameters().at(i).tensor;
    parameter.copy_(tensor_of(weights.views()[i]));
  }
  return model;
}

struct Agreement {
  double logits_error = 0;  ///< ||got - expected|| / ||expected||
  double loss = 0;
};

Agreement compare(const osdn::model::LanguageModel& model,
                  const Expected& expected) {
  const std::int64_t rows = expected.input_ids.size(0);
  const std::int64_t T = expected.input_ids.size(1);
  std::vector<std::int64_t> starts;
  for (std::int64_t row = 0; row <= rows; ++row) starts.push_back(row * T);
  const osdn::ops::Documents documents(starts);
  const at::Tensor logits =
      model.logits(expected.input_ids.flatten(), documents)
          .to(at::kDouble)
          .view_as(expected.logits);
  Agreement agreement;
  agreement.logits_error =
      ((logits - expected.logits).norm() / expected.logits.norm())
          .item<double>();
  const at::Tensor next = expected.input_ids.narrow(1, 1, T - 1).unsqueeze(-1);
  agreement.loss = -at::log_softmax(logits.narrow(1, 0, T - 1), -1)
                        .gather(-1, next)
                        .mean()
                        .item<double>();
  return agreement;
}

ExitCode check(const CheckArguments& args) {
  const at::NoGradGuard no_grad;
  const bool wide = args.dtype == "fp64";
  const double tolerance = args.tolerance.value_or(wide ? 1e-7 : 1e-4);
  const auto model =
      load_public_model(args.folder, wide ? at::kDouble : at::kFloat);
  const osdn::checkpoint::SafetensorsFile file(args.folder /
                                               "expected.safetensors");
  const Expected expected = read_expected(file, model.config().vocab_size);
  const Agreement got = compare(model, expected);
  // The loss is a mean of logarithms: an error of the logits reaches it with
  // their own size, hence the room.
  const bool loss_fits =
      !expected.loss || std::abs(got.loss - *expected.loss) <=
                            10 * tolerance * std::max(1.0, *expected.loss);
  const bool good = got.logits_error <= tolerance && loss_fits;
  std::cout << concat(
      "dtype                  ", args.dtype, "\n", "logits relative RMS    ",
      got.logits_error, " (tolerance ", tolerance, ")\n",
      "loss                   ", got.loss, "\n", "expected loss          ",
      expected.loss ? concat(*expected.loss) : "not given", "\n",
      good ? "agrees" : "DIFFERS", "\n");
  return good ? ExitCode::kOk : ExitCode::kFailure;
}

// ---- to-hf, from-hf
// ------------------------------------------------------------

/// "500MB", "2GB", "1GiB", "1000000": bytes.
std::uint64_t bytes_of(const std::string& text) {
  static const std::map<std::string, std::uint64_t> units = {
      {"", 1},
      {"B", 1},
      {"KB", 1000},
      {"MB", 1000000},
      {"GB", 1000000000},
      {"KiB", std::uint64_t{1} << 10},
      {"MiB", std::uint64_t{1} << 20},
      {"GiB", std::uint64_t{1} << 30}};
  std::uint64_t count = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, fault] = std::from_chars(text.data(), end, count);
  const auto unit = units.find(std::string(rest, end));
  std::uint64_t bytes = 0;
  if (fault != std::errc() || unit == units.end() || count == 0 ||
      __builtin_mul_overflow(count, unit->second, &bytes)) {
    throw Error(concat("--shard-size is \"", text,
                       "\", expected a number above 0 and B, KB, MB, GB, KiB, "
                       "MiB or GiB, as in 5GB"),
                ExitCode::kUsage);
  }
  return bytes;
}

ExitCode run_from_hf(const osdn::interchange::FromHfOptions& options) {
  for (const std::string& warning : osdn::interchange::from_hf(options)) {
    osdn::log::warn(warning);
  }
  std::cout << "wrote " << options.to.string() << "\n";
  return ExitCode::kOk;
}

ExitCode run_to_hf(osdn::interchange::ToHfOptions options,
                   const std::string& dtype, const std::string& shard_size) {
  options.config.dtype = dtype == "fp32"   ? DType::kF32
                         : dtype == "fp16" ? DType::kF16
                                           : DType::kBF16;
  if (!shard_size.empty()) options.shard_bytes = bytes_of(shard_size);
  for (const std::string& name : osdn::interchange::to_hf(options)) {
    std::cout << "wrote " << (options.to / name).string() << "\n";
  }
  return ExitCode::kOk;
}

ExitCode run(int argc, char** argv) {
  CLI::App app(
      "Convert models from and to the names, shapes and config.json of the "
      "public Python code.",
      "osdn-convert");
  app.set_version_flag("--version", osdn::version_line("osdn-convert"));
  app.require_subcommand(1);

  osdn::interchange::FromHfOptions in;
  CLI::App* reading = app.add_subcommand(
      "from-hf", "make an osdn checkpoint of a public model");
  reading->add_option("from", in.from, "folder with config.json and weights")
      ->required()
      ->check(osdn::apps::check_path);
  reading->add_option("to", in.to, "folder to make")
      ->required()
      ->check(osdn::apps::check_path);
  reading
      ->add_option("--tokenizer", in.tokenizer,
                   "SentencePiece model that the configuration names")
      ->check(osdn::apps::check_path);

  osdn::interchange::ToHfOptions out;
  std::string dtype = "fp32";
  std::string shard_size;
  CLI::App* write = app.add_subcommand(
      "to-hf", "make a folder for the public classes of a checkpoint");
  write->add_option("from", out.from, "run folder or checkpoint folder")
      ->required()
      ->check(osdn::apps::check_path);
  write->add_option("to", out.to, "folder to make")
      ->required()
      ->check(osdn::apps::check_path);
  write->add_option("--dtype", dtype, "of the weights: fp32, bf16 or fp16")
      ->check(CLI::IsMember({"fp32", "bf16", "fp16"}))
      ->capture_default_str();
  write->add_option("--shard-size", shard_size,
                    "largest file, as 5GB; else all weights in one");
  write->add_option("--bos-id", out.config.bos_token_id,
                    "begin token, -1 for none; else the configuration's");
  write->add_option("--eos-id", out.config.eos_token_id, "end token, the same");
  write->add_option("--pad-id", out.config.pad_token_id,
                    "padding token, the same");

  CheckArguments checked;
  CLI::App* compared = app.add_subcommand(
      "check",
      "compute the logits of FOLDER/expected.safetensors and compare them");
  compared->add_option("folder", checked.folder, "public model")
      ->required()
      ->check(osdn::apps::check_path);
  compared->add_option("--dtype", checked.dtype, "computation: fp32 or fp64")
      ->check(CLI::IsMember({"fp32", "fp64"}))
      ->capture_default_str();
  compared->add_option("--tolerance", checked.tolerance,
                       "relative RMS error that passes; else 1e-4 in fp32, "
                       "1e-7 in fp64");

  if (const auto code = osdn::apps::parse(app, argc, argv)) {
    return *code;
  }
  if (reading->parsed()) return run_from_hf(in);
  if (write->parsed()) return run_to_hf(out, dtype, shard_size);
  return check(checked);
}

}  // namespace

int main(int argc, char** argv) {
  return osdn::run_main(argc, argv, run);
}
