#include "osdn/config/reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "osdn/core/error.h"

namespace osdn::config {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

const std::string kMinimal =
    R"({"run_dir": "runs/x", "data": {"train": ["data/x"]}})";

// The message of the Error that parsing throws.
std::string refusal(const std::string& text,
                    const std::vector<std::string>& overrides = {}) {
  try {
    parse(text, "my.json", overrides);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kUsage);
    return error.what();
  }
  ADD_FAILURE() << "accepted: " << text;
  return "";
}

// kMinimal with overrides.
std::string refused_set(const std::vector<std::string>& overrides) {
  return refusal(kMinimal, overrides);
}

std::size_t lines_of(const std::string& text) {
  return static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n')) +
         1;
}

TEST(Reader, the_defaults_are_those_of_the_structs) {
  const Config config = parse(kMinimal, "my.json");
  EXPECT_EQ(config.run_dir, "runs/x");
  EXPECT_EQ(config.model.hidden_size, ModelConfig{}.hidden_size);
  EXPECT_EQ(config.optimizer.eps, 1e-15);
  EXPECT_EQ(config.training.seed, 42U);
  EXPECT_FALSE(config.model.preconditioner.enabled);
}

TEST(Reader, every_type_is_read) {
  const Config config = parse(R"({
    "run_dir": "runs/\u00e9\n",
    "model": {"layer": "gdn", "num_v_heads": 16, "head_dim": 64,
              "use_short_conv": false, "norm_eps": 1e-5, "expand_v": 2,
              "preconditioner": {"retention": "tied", "norm": "add"}},
    "data": {"train": ["a", "b"]},
    "training": {"seed": 18446744073709551615, "steps": 7}
  })",
                              "my.json");
  EXPECT_EQ(config.run_dir, "runs/\xC3\xA9\n");
  EXPECT_EQ(config.model.layer, LayerKind::kGdn);
  EXPECT_EQ(config.model.num_v_heads, 16);
  EXPECT_FALSE(config.model.use_short_conv);
  EXPECT_EQ(config.model.norm_eps, 1e-5);
  EXPECT_EQ(config.model.expand_v, 2.0);
  EXPECT_TRUE(config.model.preconditioner.enabled);
  EXPECT_EQ(config.model.preconditioner.retention, Retention::kTied);
  EXPECT_EQ(config.model.preconditioner.norm, KeyNorm::kAdd);
  EXPECT_EQ(config.data.train, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(config.training.seed, 18446744073709551615ULL);
  EXPECT_EQ(config.training.steps, 7);
}

// ---- keys
// ------------------------------------------------------------------------

TEST(Reader, G1_unknown_key_names_file_pointer_and_nearest_key) {
  const std::string message = refusal(R"({
  "run_dir": "runs/x",
  "data": {"train": ["data/x"]},
  "optimizer": {
    "learing_rate": 0.1
  }
})");
  EXPECT_EQ(message,
            "/optimizer/learing_rate in my.json:5:5 is not a known key. Did "
            "you mean lr?");
}

TEST(Reader, G1_suggestions) {
  const struct {
    std::string override_text;
    std::string expected;
  } cases[] = {
      {"model.num_head=8", "Did you mean num_heads?"},
      {"model.n_heads=8", "Did you mean num_heads?"},
      {"model.preconditoner.eta=1", "Did you mean preconditioner?"},
      {"model.eta=1", "Did you mean /model/preconditioner/eta?"},
      {"training.lr=1", "Did you mean /optimizer/lr?"},
      {"lr=1", "Did you mean /optimizer/lr?"},
      {"trainning.steps=1", "Did you mean training?"},
      {"optimizer.zzzzzzzzzz=1",
       "Known here: lr, beta1, beta2, eps, weight_decay, decay_exempt, "
       "max_grad_norm."},
  };
  for (const auto& [text, expected] : cases) {
    const std::string message = refused_set({text});
    EXPECT_THAT(message, HasSubstr("is not a known key."));
    EXPECT_THAT(message, HasSubstr(expected)) << text;
    EXPECT_THAT(message, HasSubstr("in --set " + text)) << text;
  }
}

TEST(Reader, G1_duplicate_keys_are_found_at_every_level) {
  const std::string message = refusal(R"({
  "run_dir": "x",
  "data": {"train": ["a"], "train": ["b"]},
  "run_dir": "y"
})");
  EXPECT_THAT(message, HasSubstr("The key \"train\" in my.json:3:28 is a "
                                 "duplicate: it stands in my.json:3:12"));
  EXPECT_THAT(message, HasSubstr("The key \"run_dir\" in my.json:4:3 is a "
                                 "duplicate: it stands in my.json:2:3"));
  EXPECT_THAT(message, HasSubstr("2 problems in my.json:"));
  // The same name under another escape is the same key.
  EXPECT_THAT(refusal("{\"run_dir\": \"x\", \"run\\u005fdir\": \"y\"}"),
              HasSubstr("duplicate"));
}

TEST(Reader, required_keys) {
  const std::string message = refusal("{}");
  EXPECT_THAT(message, HasSubstr("/run_dir is missing in my.json"));
  EXPECT_THAT(message, HasSubstr("/data/train is missing in my.json"));
  EXPECT_THAT(refusal(R"({"run_dir": "", "data": {"train": []}})"),
              AllOf(HasSubstr("/run_dir in my.json:1:13 is \"\""),
                    HasSubstr("/data/train in my.json:1:35 is an empty list")));
}

// ---- values
// --------------------------------------------------------------------------

TEST(Reader, wrong_types) {
  const struct {
    std::string override_text;
    std::string expected;
  } cases[] = {
      {"model.num_heads=\"8\"", "is \"8\", but must be an integer from 1"},
      {"model.num_heads=true", "is true, but must be an integer"},
      {"model.num_heads=[8]", "is a list, but must be an integer"},
      {"model.use_beta=1", "is 1, but must be true or false"},
      {"optimizer.lr=\"high\"", "is \"high\", but must be a number"},
      {"optimizer.lr={}", "is an object, but must be a number"},
      {"run_dir=3", "is 3, but must be a string"},
      {"data.train=x", "is \"x\" (write [\"x\"]), but must be a list"},
      {"data.train=[1]", "holds 1, but must be a list of strings"},
      {"data.train=[\"\"]", "holds \"\", but must be a list of strings"},
      {"model.layer=3",
       "is 3, but must be \"deltanet\", \"gdn\", \"kda\" or \"transformer\""},
      {"model.softmax.layers=3", "is 3, but must be a list of integers from 0"},
      {"model.softmax.layers=[1.5]", "holds 1.5, but must be a list of"},
      {"model.softmax.layers=[\"1\"]", "holds \"1\", but must be a list of"},
      {"model.softmax.layers=[-1]", "holds -1, but must be a list of"},
      {"model.softmax.layers=[99999999999999999999]", "but must be a list of"},
      {"model=3", "/model in --set model=3 is 3, but must be an object."},
  };
  for (const auto& [text, expected] : cases) {
    EXPECT_THAT(refused_set({text}), HasSubstr(expected)) << text;
  }
  EXPECT_THAT(refusal(R"({"run_dir": "x", "data": {"train": ["a"]},
                          "optimizer": {"lr": null}})"),
              HasSubstr("/optimizer/lr in my.json:2:47 is null, but must be"));
}

TEST(Reader, numbers_that_are_not_what_they_seem) {
  const struct {
    std::string override_text;
    std::string expected;
  } cases[] = {
      {"training.steps=1e3", "is 1e3 (write 1000: integers have no point"},
      {"training.steps=3.0", "is 3.0 (write 3: integers have no point"},
      {"training.steps=3.5", "is 3.5, but must be an integer"},
      {"training.steps=1e400", "is 1e400, but must be an integer"},
      {"training.steps=9223372036854775808", "but must be an integer"},
      {"training.steps=99999999999999999999999", "but must be an integer"},
      {"training.seed=-1",
       "is -1, but must be an integer from 0 to "
       "18446744073709551615"},
      {"training.seed=18446744073709551616", "but must be an integer"},
      {"optimizer.lr=1e999", "(outside what a double can hold)"},
      {"optimizer.eps=1e-400", "(outside what a double can hold)"},
      {"optimizer.lr=NaN", "is \"NaN\", but must be a number"},
      {"optimizer.lr=Infinity", "is \"Infinity\", but must be a number"},
      {"training.steps=007", "is \"007\", but must be an integer"},
  };
  for (const auto& [text, expected] : cases) {
    EXPECT_THAT(refused_set({text}), HasSubstr(expected)) << text;
  }
}

TEST(Reader, G2_values_out_of_range) {
  for (const std::string text : {"training.steps=0",
                                 "training.steps=-5",
                                 "training.global_batch=0",
                                 "training.micro_batch=0",
                                 "training.validate_every=-1",
                                 "training.max_skips=0",
                                 "training.threads=-1",
                                 "checkpoint.every=-1",
                                 "checkpoint.keep_last=0",
                                 "checkpoint.keep_every=-1",
                                 "logging.every=0",
                                 "data.context_length=0",
                                 "data.sequence_length=1",
                                 "data.epochs=-1",
                                 "data.prefetch_steps=-1",
                                 "optimizer.lr=0",
                                 "optimizer.lr=-0.001",
                                 "optimizer.beta1=1",
                                 "optimizer.beta1=-0.1",
                                 "optimizer.beta2=1.0",
                                 "optimizer.eps=0",
                                 "optimizer.weight_decay=-1",
                                 "optimizer.max_grad_norm=-1",
                                 "schedule.total_steps=0",
                                 "schedule.warmup_steps=-1",
                                 "schedule.min_lr_ratio=1.5",
                                 "schedule.min_lr_ratio=-0.1",
                                 "model.vocab_size=0",
                                 "model.hidden_size=0",
                                 "model.num_layers=0",
                                 "model.num_heads=0",
                                 "model.expand_k=0",
                                 "model.hidden_ratio=0",
                                 "model.conv_size=0",
                                 "model.norm_eps=0",
                                 "model.initializer_range=0",
                                 "model.preconditioner.eta=-1",
                                 "model.preconditioner.d_min=-0.5"}) {
    EXPECT_THAT(refused_set({text}), HasSubstr(", but must be a")) << text;
  }
}

TEST(Reader, G2_what_names_no_file_is_refused_wherever_a_path_is_asked_for) {
  for (const std::string bad :
       {R"("")", R"(" ")", R"("\t\n")", R"("a\u0000b")", R"("\u0000")"}) {
    for (const std::string key : {"run_dir", "data.tokenizer"}) {
      if (key == "data.tokenizer" && bad == R"("")") continue;  // not checked
      EXPECT_THAT(
          refused_set({key + "=" + bad}),
          HasSubstr("is " + bad +
                    ", but must be a string that names a path: not blank"))
          << key;
    }
    for (const std::string key : {"data.train", "data.validation"}) {
      EXPECT_THAT(refused_set({key + "=[\"good\", " + bad + "]"}),
                  HasSubstr("holds " + bad + ", but must be a list of strings"))
          << key;
    }
  }
}

TEST(Reader, choices_suggest_the_nearest) {
  EXPECT_THAT(refused_set({"model.layer=deltnet"}),
              HasSubstr("Did you mean \"deltanet\"?"));
  EXPECT_THAT(refused_set({"schedule.kind=cosin"}),
              HasSubstr("but must be \"cosine\", \"linear\", \"wsd\" or "
                        "\"constant\". Did you mean \"cosine\"?"));
}

TEST(Reader, G2_everything_wrong_is_in_one_message) {
  const std::string message = refusal(R"({
  "run_dir": "x",
  "data": {"train": ["a"], "contxt_length": 3},
  "model": {"num_heads": 7, "layer": "deltanet", "head_dim": 64},
  "training": {"steps": -1, "global_batch": 8, "micro_batch": 3},
  "training": {}
})",
                                      {"optimizer.lr=fast"});
  EXPECT_THAT(message, HasSubstr("7 problems in my.json:"));
  EXPECT_EQ(lines_of(message), 8U);
  for (const std::string part :
       {"contxt_length", "num_heads", "head_dim", "/training/steps",
        "micro_batch", "duplicate", "--set optimizer.lr=fast"}) {
    EXPECT_THAT(message, HasSubstr(part));
  }
}

// ---- overrides
// --------------------------------------------------------------------------

TEST(Reader, overrides_replace_add_and_remove) {
  const std::string text = R"({"run_dir": "x", "data": {"train": ["a"]},
    "optimizer": {"lr": 0.5}, "model": {"preconditioner": {"eta": 0.01}}})";
  EXPECT_EQ(parse(text, "f", {"optimizer.lr=0.25"}).optimizer.lr, 0.25);
  EXPECT_EQ(parse(text, "f", {"optimizer.lr=0.25", "optimizer.lr=0.125"})
                .optimizer.lr,
            0.125);
  EXPECT_EQ(parse(text, "f", {"optimizer.lr=null"}).optimizer.lr,
            OptimizerConfig{}.lr);
  EXPECT_EQ(parse(text, "f", {"run_dir=a=b"}).run_dir, "a=b");
  EXPECT_EQ(parse(text, "f", {"run_dir=runs/new"}).run_dir, "runs/new");
  EXPECT_EQ(parse(text, "f", {"data.train=[\"p\",\"q\"]"}).data.train,
            (std::vector<std::string>{"p", "q"}));
  EXPECT_FALSE(parse(text, "f", {"model.preconditioner=null"})
                   .model.preconditioner.enabled);
  EXPECT_TRUE(parse(kMinimal, "f", {"model.preconditioner={}"})
                  .model.preconditioner.enabled);
  const Config added = parse(kMinimal, "f", {"model.preconditioner.eta=0.5"});
  EXPECT_TRUE(added.model.preconditioner.enabled);
  EXPECT_EQ(added.model.preconditioner.eta, 0.5);
  // An object takes the place of the whole section.
  EXPECT_EQ(parse(text, "f", {"optimizer={\"beta1\": 0.5}"}).optimizer.lr,
            OptimizerConfig{}.lr);
}

TEST(Reader, overrides_mend_a_bad_value_of_the_file) {
  const std::string text = R"({"run_dir": "x", "data": {"train": ["a"]},
    "optimizer": {"lr": -1}})";
  EXPECT_EQ(parse(text, "f", {"optimizer.lr=0.1"}).optimizer.lr, 0.1);
}

TEST(Reader, malformed_overrides) {
  EXPECT_THAT(refused_set({"optimizer.lr"}),
              HasSubstr("--set optimizer.lr: expected a key and a value"));
  EXPECT_THAT(refused_set({"=3"}), HasSubstr("expected a key and a value"));
  EXPECT_THAT(refused_set({".lr=3"}), HasSubstr("is not a known key"));
  EXPECT_THAT(refused_set({"optimizer.lr.x=3"}),
              HasSubstr("/optimizer/lr in --set optimizer.lr.x=3 is an "
                        "object, but must be a number"));
  EXPECT_THAT(refused_set({"optimizer={\"lr\": 1, \"lr\": 2}"}),
              HasSubstr("duplicate"));
  EXPECT_THAT(refused_set({"optimizer.learning_rat=null"}),
              HasSubstr("is not a known key"));
  EXPECT_THAT(refused_set({"run_dir=a\xff"
                           "b"}),
              HasSubstr("--set run_dir=a: byte 10 is not UTF-8"));
}

// ---- presets: layers.md section 6, every column
// ---------------------------------------

struct PresetCase {
  std::string layer;
  std::string preset;
  std::string retention;
  double eta, d_min, d_max;
  bool beta_aware;
  KeyNorm norm;
  double d0_init;
  bool detach;
};

TEST(Reader, presets_fill_what_is_not_named) {
  const KeyNorm floor = KeyNorm::kFloor;
  const KeyNorm off = KeyNorm::kOff;
  const std::vector<PresetCase> cases = {
      {"deltanet", "paper", "none", 0.003, 0.5, 2, true, floor, 1, false},
      {"gdn", "paper", "tied", 0.003, 0.5, 2, true, floor, 1, false},
      {"kda", "paper", "data_dependent", 0.003, 0.5, 2, true, floor, 1, false},
      {"kda", "paper", "none", 0.003, 0.5, 2, true, floor, 1, false},
      {"deltanet", "published-runs", "none", 1, 0, 1e9, false, off, 0, false},
      {"deltanet", "published-runs", "data_dependent", 1, 0, 1e9, false, off, 0,
       false},
      {"gdn", "published-runs", "none", 0.003, 2.0 / 3, 1.5, true, off, 1,
       false},
      {"gdn", "published-runs", "tied", 0.003, 2.0 / 3, 1.5, true, off, 1,
       false},
      {"kda", "published-runs", "data_dependent", 0.003, 2.0 / 3, 1.5, true,
       off, 1, false},
      {"kda", "published-runs", "none", 0.01, 0, 1.2, true, off, 1, true},
  };
  for (const PresetCase& expected : cases) {
    SCOPED_TRACE(expected.layer + " " + expected.preset + " " +
                 expected.retention);
    const PreconditionerConfig got =
        parse(kMinimal, "f",
              {"model.layer=" + expected.layer,
               "model.preconditioner.preset=" + expected.preset,
               "model.preconditioner.retention=" + expected.retention})
            .model.preconditioner;
    EXPECT_EQ(got.eta, expected.eta);
    EXPECT_EQ(got.d_min, expected.d_min);
    EXPECT_EQ(got.d_max, expected.d_max);
    EXPECT_EQ(got.beta_aware, expected.beta_aware);
    EXPECT_EQ(got.norm, expected.norm);
    EXPECT_EQ(got.d0_init, expected.d0_init);
    EXPECT_EQ(got.detach, expected.detach);
    EXPECT_EQ(got.retention_bias, 6.9);
  }
}

TEST(Reader, a_named_key_wins_over_the_preset) {
  const std::string prefix = "model.preconditioner.";
  const PreconditionerConfig got =
      parse(kMinimal, "f",
            {prefix + "preset=published-runs", prefix + "eta=0.5",
             prefix + "d_min=0.25", prefix + "d_max=4",
             prefix + "beta_aware=true", prefix + "norm=add",
             prefix + "d0_init=0.75", prefix + "detach=true"})
          .model.preconditioner;
  EXPECT_EQ(got.eta, 0.5);
  EXPECT_EQ(got.d_min, 0.25);
  EXPECT_EQ(got.d_max, 4);
  EXPECT_TRUE(got.beta_aware);
  EXPECT_EQ(got.norm, KeyNorm::kAdd);
  EXPECT_EQ(got.d0_init, 0.75);
  EXPECT_TRUE(got.detach);
}

}  // namespace
}  // namespace osdn::config
