#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>
#include <string>
#include <utility>

#include "grouped_rows.h"
#include "hf_names.h"
#include "osdn/arch/parameter_table.h"
#include "osdn/checkpoint/finite_check.h"
#include "osdn/core/concat.h"
#include "osdn/core/error.h"
#include "osdn/interchange/convert_dtype.h"
#include "osdn/interchange/weights.h"

namespace osdn::interchange {

namespace {

using checkpoint::WeightFiles;
using config::ModelConfig;
using config::Retention;

const std::string kEmbedding = "model.embeddings.weight";
constexpr std::string_view kHead = "lm_head.weight";
constexpr std::string_view kGamma = ".osgm_gamma_log";

std::string text_of(const std::vector<std::int64_t>& shape) {
  std::string text = "[";
  for (std::size_t i = 0; i < shape.size(); ++i) {
    text += concat(i > 0 ? ", " : "", shape[i]);
  }
  return text + "]";
}

bool is_floating(DType dtype) {
  return dtype == DType::kF64 || dtype == DType::kF32 || dtype == DType::kF16 ||
         dtype == DType::kBF16;
}

bool same_values(const TensorView& a, const TensorView& b) {
  if (a.shape != b.shape) return false;
  if (a.dtype == b.dtype) {
    return std::memcmp(a.data, b.data, a.bytes()) == 0;
  }
  return convert(a, DType::kF32) == convert(b, DType::kF32);
}

// The shape that a gate of one row a key head has; `expected` for all others.
std::vector<std::int64_t> shape_per_key_head(
    const ModelConfig& model, const std::string& name,
    std::vector<std::int64_t> expected) {
  if (rows_of_a_head(model, name)) {
    expected.front() = expected.front() / model.value_heads() * model.num_heads;
  }
  return expected;
}

class Checker {
 public:
  Checker(const WeightFiles& files, const ModelConfig& model)
      : files_(files), model_(model), table_(arch::parameter_table(model)) {}

  void run() {
    std::set<std::string> expected;
    for (const arch::Parameter& parameter : table_) {
      expected.insert(name_in_files(model_, parameter.name));
      check(parameter);
    }
    for (const TensorView& tensor : files_.tensors()) {
      if (!expected.contains(tensor.name) && !ignored(tensor)) {
        fault("not of this model: ", tensor.name, " ", text_of(tensor.shape));
      }
    }
    if (!faults_.empty()) {
      throw Error(concat(files_.path().string(),
                         " does not fit its config.json:", faults_),
                  ExitCode::kBadInput);
    }
  }

 private:
  template <typename... Pieces>
  void fault(const Pieces&... pieces) {
    faults_ += concat("\n  ", pieces...);
  }

  void check(const arch::Parameter& parameter) {
    const std::string name = name_in_files(model_, parameter.name);
    if (!files_.contains(name)) {
      fault("missing: ", name, " ", text_of(parameter.shape));
      return;
    }
    const TensorView& tensor = files_.tensor(name);
    const auto shared = shape_per_key_head(model_, name, parameter.shape);
    if (tensor.shape != parameter.shape && tensor.shape != shared) {
      fault("shape of ", name, " is ", text_of(tensor.shape), ", expected ",
            text_of(parameter.shape),
            shared != parameter.shape ? concat(" or ", text_of(shared)) : "");
    }
    if (!is_floating(tensor.dtype)) {
      fault("dtype of ", name, " is ", name_of(tensor.dtype),
            ", expected F64, F32, F16 or BF16");
    } else if (const auto bad = checkpoint::find_non_finite({&tensor, 1})) {
      fault("not finite: ", name, " has ", bad->value, " at element ",
            bad->index);
    }
  }

  bool ignored(const TensorView& tensor) {
    return is_tied_head(tensor) || is_rotary_table(tensor);
  }

  // Trap 2.
  bool is_tied_head(const TensorView& tensor) {
    const std::string embedding = name_in_files(model_, kEmbedding);
    if (!model_.tie_word_embeddings || tensor.name != kHead ||
        !files_.contains(embedding)) {
      return false;
    }
    if (!same_values(tensor, files_.tensor(embedding))) {
      fault(kHead, " differs from ", embedding,
            ", but tie_word_embeddings is true");
    }
    return true;
  }

  // Files of older versions hold what the rotary positions turn by, which
  // follows from the configuration. Kept in a narrow type it has three digits.
  bool is_rotary_table(const TensorView& tensor) {
    if (model_.softmax_layers() == 0 || !tensor.name.ends_with(".inv_freq")) {
      return false;
    }
    const std::int64_t pairs = model_.softmax_head_dim() / 2;
    bool same = tensor.shape == std::vector<std::int64_t>{pairs} &&
                is_floating(tensor.dtype);
    const std::vector<std::byte> bytes =
        same ? convert(tensor, DType::kF32) : std::vector<std::byte>();
    for (std::int64_t i = 0; same && i < pairs; ++i) {
      float value = 0;
      std::memcpy(&value,
                  bytes.data() + static_cast<std::size_t>(i) * sizeof(value),
                  sizeof(value));
      const double exact =
          std::pow(model_.softmax.rope_theta,
                   -static_cast<double>(i) / static_cast<double>(pairs));
      same = std::abs(value - exact) <= 0.01 * exact;
    }
    if (!same) {
      fault(tensor.name,
            " is not what rope_theta = ", model_.softmax.rope_theta,
            " gives for heads of ", 2 * pairs, " channels");
    }
    return true;
  }

  const WeightFiles& files_;
  const ModelConfig& model_;
  std::vector<arch::Parameter> table_;
  std::string faults_;
};

std::vector<const TensorView*> gamma_tensors(const WeightFiles& files) {
  std::vector<const TensorView*> found;
  for (const TensorView& tensor : files.tensors()) {
    if (tensor.name.ends_with(kGamma) && is_floating(tensor.dtype)) {
      found.push_back(&tensor);
    }
  }
  return found;
}

bool holds_logit_of(const TensorView& tensor, double r) {
  const auto logit = static_cast<float>(std::log(r) - std::log1p(-r));
  const std::vector<std::byte> bytes = convert(tensor, DType::kF32);
  for (std::size_t at = 0; at < bytes.size(); at += sizeof(float)) {
    float value = 0;
    std::memcpy(&value, bytes.data() + at, sizeof(float));
    if (value != logit) return false;
  }
  return true;
}

// True when the tensors hold just the constant, so that they can be left out.
bool resolve_constant_retention(const WeightFiles& files,
                                ImportedConfig& imported) {
  config::PreconditionerConfig& scale = imported.model.preconditioner;
  if (!imported.retention_in_weights ||
      scale.retention != Retention::kConstant) {
    return false;
  }
  const auto tensors = gamma_tensors(files);
  if (tensors.empty()) return false;
  const bool same = std::all_of(
      tensors.begin(), tensors.end(), [&](const TensorView* tensor) {
        return holds_logit_of(*tensor, scale.retention_value);
      });
  if (same && std::ssize(tensors) ==
                  imported.model.num_layers - imported.model.softmax_layers())
    return true;
  scale.retention = Retention::kPerHead;
  imported.warnings.push_back(
      concat(files.path().string(), ": osgm_gamma_log is not the logit of ",
             "osgm_decay_gamma = ", scale.retention_value,
             "; the weights count, and retention is \"per_head\""));
  return false;
}

}  // namespace

void TensorSet::add(TensorView view, std::vector<std::byte> bytes) {
  held_.push_back(std::make_unique<std::vector<std::byte>>(std::move(bytes)));
  view.data = held_.back()->data();
  views_.push_back(std::move(view));
}

TensorSet import_weights(const WeightFiles& files, ImportedConfig& imported,
                         std::optional<DType> dtype) {
  const bool constant = resolve_constant_retention(files, imported);
  const ModelConfig& model = imported.model;
  ModelConfig in_files = model;
  if (constant) {
    // The tensors are checked like all others and then left out.
    in_files.preconditioner.retention = Retention::kPerHead;
  }
  Checker(files, in_files).run();
  TensorSet out;
  for (const arch::Parameter& parameter : arch::parameter_table(model)) {
    TensorView tensor = files.tensor(name_in_files(model, parameter.name));
    tensor.name = parameter.name;
    std::vector<std::byte> bytes;
    if (dtype && tensor.dtype != *dtype) {
      bytes = convert(tensor, *dtype);
      tensor.dtype = *dtype;
      tensor.data = bytes.data();
    }
    if (tensor.shape != parameter.shape) {
      bytes = repeat_heads(tensor, *rows_of_a_head(model, parameter.name),
                           model.value_heads() / model.num_heads);
      tensor.shape = parameter.shape;
    }
    if (bytes.empty()) {
      out.add(std::move(tensor));
    } else {
      out.add(std::move(tensor), std::move(bytes));
    }
  }
  return out;
}

}  // namespace osdn::interchange
