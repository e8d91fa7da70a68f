#include "osdn/config/validate.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "key_table.h"
#include "osdn/core/concat.h"
#include "osdn/core/error.h"
#include "problems.h"

namespace osdn::config {

namespace {

constexpr std::int64_t kWidestKernel = 256;  // K and V on a GPU

std::string listed(const std::vector<std::int64_t>& values) {
  std::string out;
  for (std::size_t i = 0; i < values.size(); ++i) {
    out += i == 0 ? "" : i + 1 == values.size() ? " or " : ", ";
    out += concat(values[i]);
  }
  return out;
}

// The three numbers below `wanted` and the two above it that divide both
// widths: what to write instead.
std::vector<std::int64_t> divisors_near(std::int64_t wanted, std::int64_t a,
                                        std::int64_t b) {
  std::vector<std::int64_t> below;
  std::vector<std::int64_t> above;
  for (std::int64_t d = 1; d <= std::min(a, b) && above.size() < 2; ++d) {
    if (a % d == 0 && b % d == 0) {
      (d < wanted ? below : above).push_back(d);
    }
  }
  if (below.size() > 3) {
    below.erase(below.begin(), below.end() - 3);
  }
  below.insert(below.end(), above.begin(), above.end());
  return below;
}

class Checker {
 public:
  Checker(const Config& config, const Describe& describe)
      : config_(config), describe_(describe) {}

  std::vector<std::string> run() {
    if (!usable({"model.layer"})) {
      return problems_;  // every width depends on it
    }
    check_mlp();
    if (!config_.model.is_transformer()) {
      check_delta_rule_widths();
    }
    check_softmax();
    check_token_ids();
    check_gates();
    check_preconditioner();
    check_data();
    check_schedule();
    check_training();
    return problems_;
  }

 private:
  // False when one of the keys is refused already: nothing to add then.
  bool usable(std::initializer_list<std::string_view> paths) const {
    return std::all_of(paths.begin(), paths.end(),
                       [this](auto path) { return !describe_(path).empty(); });
  }

  template <typename... Pieces>
  void report(const Pieces&... pieces) {
    problems_.push_back(concat(pieces...));
  }

  void check_mlp() {
    const ModelConfig& model = config_.model;
    if (usable({"model.hidden_size", "model.hidden_ratio",
                "model.intermediate_size"}) &&
        model.mlp_width() < 1) {
      report(describe_("model.hidden_ratio"), " is ", model.hidden_ratio,
             ", which leaves a SwiGLU of width 0 at ",
             pointer_of("model.hidden_size"), " = ", model.hidden_size,
             ". Use a larger ratio or give /model/intermediate_size.");
    }
  }

  void check_delta_rule_widths() {
    const ModelConfig& model = config_.model;
    const bool deltanet = model.layer == LayerKind::kDeltaNet;
    const bool sound = deltanet ? check_deltanet_heads() : check_head_dim();
    if (sound && config_.training.device == "cuda" &&
        usable({"training.device"})) {
      const std::string_view key_path =
          deltanet ? "model.num_heads" : "model.head_dim";
      const bool key_fits =
          check_kernel_width("key", model.key_width(), key_path);
      // Value heads as wide as the key heads are the same fault.
      if (key_fits || model.value_width() != model.key_width()) {
        check_kernel_width("value", model.value_width(),
                           deltanet ? "model.num_heads" : "model.expand_v");
      }
    }
  }

  // DeltaNet's widths are those of all heads together.
  bool check_deltanet_heads() {
    if (!usable({"model.hidden_size", "model.num_heads", "model.expand_k",
                 "model.expand_v"})) {
      return false;
    }
    const ModelConfig& model = config_.model;
    const auto total = [&](double ratio) {
      return static_cast<std::int64_t>(
          std::floor(static_cast<double>(model.hidden_size) * ratio));
    };
    const std::int64_t keys = total(model.expand_k);
    const std::int64_t values = total(model.expand_v_or_default());
    const auto check = [&](std::int64_t width, double ratio,
                           std::string_view ratio_path) {
      if (width >= model.num_heads && width % model.num_heads == 0) {
        return true;
      }
      const std::vector<std::int64_t> good =
          divisors_near(model.num_heads, keys, values);
      report(describe_("model.num_heads"), " is ", model.num_heads,
             ", which does not divide ", pointer_of("model.hidden_size"),
             ratio == 1.0
                 ? concat(" = ", width)
                 : concat(" x ", pointer_of(ratio_path), " = ",
                          model.hidden_size, " x ", ratio, " = ", width),
             ". ",
             good.empty() ? std::string("Widen the heads.")
                          : concat("Use ", listed(good), "."));
      return false;
    };
    return check(keys, model.expand_k, "model.expand_k") &&
           check(values, model.expand_v_or_default(), "model.expand_v");
  }

  bool check_head_dim() {
    const ModelConfig& model = config_.model;
    bool sound = true;
    if (!usable({"model.num_heads", "model.num_v_heads"})) {
      sound = false;
    } else if (model.value_heads() % model.num_heads != 0) {
      report(
          describe_("model.num_v_heads"), " is ", model.value_heads(),
          ", which is not a multiple of ", pointer_of("model.num_heads"), " = ",
          model.num_heads, ". Use ",
          listed({model.num_heads, 2 * model.num_heads, 4 * model.num_heads}),
          ".");
      sound = false;
    }
    if (!usable({"model.head_dim", "model.expand_v"})) {
      return false;
    }
    const double exact =
        static_cast<double>(model.key_width()) * model.expand_v_or_default();
    if (exact < 1 || std::floor(exact) != exact) {
      report(describe_("model.expand_v"), " is ", model.expand_v_or_default(),
             ", which makes value heads of ", pointer_of("model.head_dim"),
             " x expand_v = ", model.key_width(), " x ",
             model.expand_v_or_default(), " = ", exact,
             " channels. Use a ratio that gives an integer of at least 1.");
      sound = false;
    }
    return sound;
  }

  void check_softmax() {
    const ModelConfig& model = config_.model;
    if (!usable({"model.softmax.layers", "model.num_layers"})) {
      return;
    }
    check_softmax_layers();
    if (model.softmax_layers() == 0 ||
        !usable({"model.hidden_size", "model.softmax.num_heads",
                 "model.softmax.num_kv_heads", "model.softmax.head_dim"})) {
      return;
    }
    const std::int64_t h = model.hidden_size;
    const std::int64_t heads = model.softmax_heads();
    if (!model.softmax.head_dim && h % heads != 0) {
      report(describe_("model.softmax.num_heads"), " is ", heads,
             ", which does not divide ", pointer_of("model.hidden_size"), " = ",
             h, ". Use ", listed(divisors_near(heads, h, h)),
             ", or give /model/softmax/head_dim.");
      return;
    }
    if (model.softmax_head_dim() % 2 != 0) {
      report(describe_(model.softmax.head_dim ? "model.softmax.head_dim"
                                              : "model.softmax.num_heads"),
             " gives softmax heads of ", model.softmax_head_dim(),
             " channels, but rotary positions turn pairs. Use an even width.");
    }
    if (heads % model.softmax_kv_heads() != 0) {
      report(describe_("model.softmax.num_kv_heads"), " is ",
             model.softmax_kv_heads(), ", which does not divide ",
             pointer_of("model.softmax.num_heads"), " = ", heads, ". Use ",
             listed(divisors_near(model.softmax_kv_heads(), heads, heads)),
             ".");
    }
  }

  void check_token_ids() {
    const config::TokenIds& given = config_.model.token_ids;
    const config::TokenIds standard;
    const auto check = [&](std::string_view path, std::int64_t id,
                           std::int64_t by_default) {
      if (id != by_default && id >= config_.model.vocab_size &&
          usable({path, "model.vocab_size"})) {
        report(describe_(path), " is ", id, ", but ids are below ",
               pointer_of("model.vocab_size"), " = ", config_.model.vocab_size,
               ".");
      }
    };
    check("model.token_ids.bos", given.bos, standard.bos);
    check("model.token_ids.eos", given.eos, standard.eos);
    check("model.token_ids.pad", given.pad, standard.pad);
  }

  void check_softmax_layers() {
    const std::vector<std::int64_t>& layers = config_.model.softmax.layers;
    if (std::adjacent_find(layers.begin(), layers.end(),
                           std::greater_equal<>()) != layers.end()) {
      report(describe_("model.softmax.layers"), " is ", to_text(layers),
             ", but must rise, with no layer twice.");
    } else if (!layers.empty() && layers.back() >= config_.model.num_layers) {
      report(describe_("model.softmax.layers"), " is ", to_text(layers),
             ", but the layers of ", pointer_of("model.num_layers"), " = ",
             config_.model.num_layers, " are 0 to ",
             config_.model.num_layers - 1, ".");
    }
  }

  bool check_kernel_width(std::string_view what, std::int64_t width,
                          std::string_view path) {
    const bool fits = width % 8 == 0 && width <= kWidestKernel;
    if (!fits && usable({path})) {
      report(describe_(path), " gives ", what, " heads of ", width,
             " channels, but ", pointer_of("training.device"),
             " is \"cuda\", whose kernels take multiples of 8 up to ",
             kWidestKernel, ". Use such a width, or \"cpu\", which takes any.");
    }
    return fits;
  }

  void check_gates() {
    const ModelConfig& model = config_.model;
    if (model.layer != LayerKind::kKda || !model.safe_gate ||
        !usable({"model.safe_gate", "model.lower_bound"})) {
      return;
    }
    if (!model.lower_bound) {
      report(describe_("model.safe_gate"),
             " is true, but /model/lower_bound is not given. Give a number "
             "from -5 to below 0.");
    } else if (*model.lower_bound < -5) {
      report(describe_("model.lower_bound"), " is ", *model.lower_bound,
             ", but must be from -5 to below 0 while ",
             pointer_of("model.safe_gate"), " is true.");
    }
  }

  void check_preconditioner() {
    const PreconditionerConfig& preconditioner = config_.model.preconditioner;
    if (!preconditioner.enabled) {
      return;
    }
    if (config_.model.is_transformer()) {
      report("/model/preconditioner scales the delta rule's keys, but ",
             describe_("model.layer"),
             " is \"transformer\", which has no delta rule. Remove the section "
             "or use another layer.");
      return;
    }
    const std::string prefix = "model.preconditioner.";
    if (preconditioner.retention == Retention::kTied &&
        config_.model.layer != LayerKind::kGdn &&
        usable({prefix + "retention"})) {
      report(describe_(prefix + "retention"), " is \"tied\", but ",
             pointer_of("model.layer"),
             config_.model.layer == LayerKind::kDeltaNet
                 ? " is \"deltanet\", which has no decay to tie it to"
                 : " is \"kda\", whose decay is per channel",
             ". Use \"data_dependent\" or \"none\", or the layer \"gdn\".");
    }
    if (!usable({prefix + "d_min", prefix + "d_max", prefix + "d0_init"})) {
      return;
    }
    if (preconditioner.d_min > preconditioner.d_max) {
      report(describe_(prefix + "d_min"), " is ", preconditioner.d_min,
             ", which is above ", pointer_of(prefix + "d_max"), " = ",
             preconditioner.d_max, ". Use at most that.");
    } else if (preconditioner.d0_init < preconditioner.d_min ||
               preconditioner.d0_init > preconditioner.d_max) {
      report(describe_(prefix + "d0_init"), " is ", preconditioner.d0_init,
             ", which lies outside the box from ", pointer_of(prefix + "d_min"),
             " = ", preconditioner.d_min, " to ", pointer_of(prefix + "d_max"),
             " = ", preconditioner.d_max, ". Use a value inside it.");
    }
  }

  void check_data() {
    const DataConfig& data = config_.data;
    if (usable({"data.context_length", "data.sequence_length"}) &&
        data.context_length > data.sequence_length) {
      report(
          describe_("data.context_length"), " is ", data.context_length,
          ", which is longer than a row: ", pointer_of("data.sequence_length"),
          " = ", data.sequence_length, ". Use at most that.");
    }
    if (usable({"data.train", "data.validation"})) {
      for (const std::string& path : data.validation) {
        if (std::find(data.train.begin(), data.train.end(), path) !=
            data.train.end()) {
          report(describe_("data.validation"), " holds \"", path,
                 "\", which is in ", pointer_of("data.train"),
                 " too. Validate on data that is not trained on.");
        }
      }
    }
  }

  void check_schedule() {
    const ScheduleConfig& schedule = config_.schedule;
    if (schedule.kind == "constant" ||
        !usable({"schedule.kind", "schedule.total_steps",
                 "schedule.warmup_steps"})) {
      return;
    }
    if (schedule.warmup_steps > schedule.total_steps) {
      report(describe_("schedule.warmup_steps"), " is ", schedule.warmup_steps,
             ", which is longer than the schedule: ",
             pointer_of("schedule.total_steps"), " = ", schedule.total_steps,
             ". Use at most that.");
    } else if (schedule.kind == "wsd" && usable({"schedule.decay_steps"}) &&
               schedule.warmup_steps + schedule.decay_steps >
                   schedule.total_steps) {
      report(describe_("schedule.decay_steps"), " is ", schedule.decay_steps,
             ", which does not fit between ",
             pointer_of("schedule.warmup_steps"), " = ", schedule.warmup_steps,
             " and ", pointer_of("schedule.total_steps"), " = ",
             schedule.total_steps, ". Use at most ",
             schedule.total_steps - schedule.warmup_steps, ".");
    }
  }

  void check_cuda_graph() {
    if (config_.training.cuda_graph != "on" ||
        !usable({"training.cuda_graph"})) {
      return;
    }
    if (config_.training.device == "cpu") {
      report(describe_("training.cuda_graph"), " is \"on\", but ",
             pointer_of("training.device"),
             " is \"cpu\". Use \"auto\", or the device \"cuda\".");
    }
    if (config_.model.softmax_layers() > 0) {
      report(describe_("training.cuda_graph"),
             " is \"on\", but softmax layers work document by document, which "
             "cannot be recorded. Use \"auto\".");
    }
  }

  void check_training() {
    const TrainingConfig& training = config_.training;
    if (usable({"training.global_batch", "training.micro_batch"}) &&
        training.global_batch % training.micro_batch != 0) {
      report(describe_("training.micro_batch"), " is ", training.micro_batch,
             ", which does not divide ", pointer_of("training.global_batch"),
             " = ", training.global_batch, ". Use ",
             listed(divisors_near(training.micro_batch, training.global_batch,
                                  training.global_batch)),
             ".");
    }
    if (usable({"training.device", "training.dtype"})) {
      if (training.dtype == "fp64" && training.device == "cuda") {
        report(describe_("training.dtype"), " is \"fp64\", but ",
               pointer_of("training.device"),
               " is \"cuda\". Use \"bf16\" or \"fp32\", or the device "
               "\"cpu\".");
      }
      if (training.dtype == "bf16" && training.device == "cpu") {
        report(describe_("training.dtype"), " is \"bf16\", but ",
               pointer_of("training.device"),
               " is \"cpu\". Use \"fp32\" or \"fp64\", or the device "
               "\"cuda\".");
      }
    }
    check_cuda_graph();
    if (usable({"data.sequence_length", "training.global_batch",
                "training.steps"})) {
      std::int64_t tokens = config_.data.sequence_length;
      if (__builtin_mul_overflow(tokens, training.global_batch, &tokens) ||
          __builtin_mul_overflow(tokens, training.steps, &tokens)) {
        report(describe_("training.steps"), " is ", training.steps,
               ", which with ", training.global_batch, " rows of ",
               config_.data.sequence_length,
               " tokens a step is more than 63 bits can count. Use fewer.");
      }
    }
    const CheckpointConfig& checkpoint = config_.checkpoint;
    if (usable({"checkpoint.every", "checkpoint.keep_every"}) &&
        checkpoint.every > 0 && checkpoint.keep_every % checkpoint.every != 0) {
      report(describe_("checkpoint.keep_every"), " is ", checkpoint.keep_every,
             ", which is not a multiple of ", pointer_of("checkpoint.every"),
             " = ", checkpoint.every,
             ", so that no checkpoint would be kept "
             "at most of these steps. Use ",
             listed({checkpoint.every, 2 * checkpoint.every,
                     10 * checkpoint.every}),
             ", or 0.");
    }
  }

  const Config& config_;
  const Describe& describe_;
  std::vector<std::string> problems_;
};

}  // namespace

std::vector<std::string> combination_problems(const Config& config,
                                              const Describe& describe) {
  return Checker(config, describe).run();
}

void validate(const Config& config) {
  std::vector<std::string> problems;
  std::set<std::string, std::less<>> refused;
  for (const Key& key : key_table()) {
    const std::optional<Value> value = key.get(config);
    // Where the run is kept and what it reads are not asked of a Config that
    // code builds: a model can be made without either.
    if (!value || key.required || (key.applies && !key.applies(config)) ||
        key.admits(*value)) {
      continue;
    }
    refused.insert(key.path);
    problems.push_back(concat(key.pointer(), " is ", to_text(*value),
                              ", but must be ", key.allowed(), "."));
  }
  const auto combined =
      combination_problems(config, [&refused](std::string_view path) {
        return refused.contains(path) ? std::string() : pointer_of(path);
      });
  problems.insert(problems.end(), combined.begin(), combined.end());
  throw_problems(problems, "the configuration");
}

void validate_ranks(const Config& config, int ranks) {
  const std::int64_t group = ranks * config.training.micro_batch;
  if (config.training.global_batch % group == 0) return;
  throw Error(
      concat("training.global_batch is ", config.training.global_batch,
             ", which is no multiple of ", ranks,
             " ranks times training.micro_batch ", config.training.micro_batch,
             "; use ", group, ", ", 2 * group, ", ", 3 * group, ", ..."),
      ExitCode::kUsage);
}

}  // namespace osdn::config
