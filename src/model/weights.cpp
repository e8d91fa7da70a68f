#include "osdn/model/weights.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/from_blob.h>

#include <set>
#include <sstream>

#include "osdn/checkpoint/weight_files.h"
#include "osdn/core/error.h"
#include "osdn/ops/host_tensors.h"

namespace osdn::model {
namespace {

at::Tensor tensor_of(const TensorView& view,
                     const std::filesystem::path& file) {
  const at::ScalarType type = ops::scalar_type_of(view.dtype);
  if (!at::isFloatingType(type)) {
    throw Error(file.string() + ": tensor " + view.name + " is " +
                    std::string(name_of(view.dtype)) +
                    "; weights are F64, F32, F16 or BF16",
                ExitCode::kBadInput);
  }
  return at::from_blob(view.data, view.shape, type);
}

}  // namespace

void load_weights(LanguageModel& model, const std::filesystem::path& path) {
  const at::NoGradGuard no_grad;
  const checkpoint::WeightFiles file(path);
  std::ostringstream faults;
  std::set<std::string> expected;
  for (const ModelParameter& p : model.parameters()) {
    const std::string& name = p.info.name;
    expected.insert(name);
    if (!file.contains(name)) {
      faults << "\n  missing: " << name << " " << p.tensor.sizes();
      continue;
    }
    const TensorView& view = file.tensor(name);
    if (view.shape != p.info.shape) {
      faults << "\n  shape of " << name << " is " << at::IntArrayRef(view.shape)
             << ", expected " << p.tensor.sizes();
    } else if (!tensor_of(view, path).isfinite().all().item<bool>()) {
      faults << "\n  not finite: " << name;
    }
  }
  const bool tied = model.config().tie_word_embeddings;
  for (const TensorView& view : file.tensors()) {
    if (expected.count(view.name)) continue;
    // A tied model's file may repeat the embedding as the head.
    if (tied && view.name == "lm_head.weight" &&
        file.contains("model.embeddings.weight") &&
        at::equal(tensor_of(view, path),
                  tensor_of(file.tensor("model.embeddings.weight"), path))) {
      continue;
    }
    faults << "\n  not of this model: " << view.name << " "
           << at::IntArrayRef(view.shape);
  }
  if (!faults.str().empty()) {
    throw Error(path.string() + " does not fit the model:" + faults.str(),
                ExitCode::kBadInput);
  }
  for (const ModelParameter& p : model.parameters()) {
    p.master.copy_(tensor_of(file.tensor(p.info.name), path));
  }
  model.take_masters();
}

}  // namespace osdn::model
