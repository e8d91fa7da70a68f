#include "osdn/config/validate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

#include "osdn/config/reader.h"
#include "osdn/core/error.h"

namespace osdn::config {
namespace {

using ::testing::HasSubstr;

const std::string kMinimal =
    R"({"run_dir": "runs/x", "data": {"train": ["data/x"]}})";

struct Impossible {
  std::vector<std::string> overrides;
  std::string expected;
};

// Each combination that cannot be, with the whole of what is said about it.
std::vector<Impossible> impossible() {
  const std::string pre = "model.preconditioner.";
  return {
      // widths
      {{"model.num_heads=7"},
       "/model/num_heads in --set model.num_heads=7 is 7, which does not "
       "divide /model/hidden_size = 1024. Use 1, 2, 4, 8 or 16."},
      {{"model.expand_k=0.75", "model.num_heads=5"},
       "is 5, which does not divide /model/hidden_size x /model/expand_k = "
       "1024 x 0.75 = 768. Use 1, 2, 4, 8 or 16."},
      {{"model.expand_v=0.75", "model.num_heads=512"},
       "is 512, which does not divide /model/hidden_size x /model/expand_v = "
       "1024 x 0.75 = 768. Use 64, 128 or 256."},
      {{"model.hidden_size=4", "model.num_heads=8"},
       "is 8, which does not divide /model/hidden_size = 4. Use 1, 2 or 4."},
      {{"model.layer=gdn", "model.head_dim=3", "model.expand_v=1.5"},
       "/model/expand_v in --set model.expand_v=1.5 is 1.5, which makes value "
       "heads of /model/head_dim x expand_v = 3 x 1.5 = 4.5 channels. Use a "
       "ratio that gives an integer of at least 1."},
      {{"model.layer=kda", "model.head_dim=1", "model.expand_v=0.5"},
       "= 0.5 channels."},
      {{"model.layer=gdn", "model.num_heads=6", "model.num_v_heads=8"},
       "/model/num_v_heads in --set model.num_v_heads=8 is 8, which is not a "
       "multiple of /model/num_heads = 6. Use 6, 12 or 24."},
      {{"model.layer=kda", "model.num_heads=8", "model.num_v_heads=4"},
       "is 4, which is not a multiple of /model/num_heads = 8."},
      {{"model.hidden_size=1", "model.num_heads=1", "model.hidden_ratio=0.5"},
       "/model/hidden_ratio in --set model.hidden_ratio=0.5 is 0.5, which "
       "leaves a SwiGLU of width 0"},
      // softmax
      {{"model.softmax.layers=[2, 1]"},
       "/model/softmax/layers in --set model.softmax.layers=[2, 1] is [2, 1], "
       "but must rise, with no layer twice."},
      {{"model.softmax.layers=[1, 1]"}, "must rise, with no layer twice."},
      {{"model.softmax.layers=[3, 24]"},
       "is [3, 24], but the layers of /model/num_layers = 24 are 0 to 23."},
      {{"model.layer=transformer", "model.softmax.num_heads=7"},
       "/model/softmax/num_heads in --set model.softmax.num_heads=7 is 7, "
       "which "
       "does not divide /model/hidden_size = 1024. Use 1, 2, 4, 8 or 16, or "
       "give /model/softmax/head_dim."},
      {{"model.layer=transformer", "model.hidden_size=200"},
       "/model/softmax/num_heads is 3, which does not divide"},
      {{"model.layer=transformer", "model.softmax.num_kv_heads=3"},
       "is 3, which does not divide /model/softmax/num_heads = 16. Use 1, 2, 4 "
       "or 8."},
      {{"model.softmax.layers=[0]", "model.softmax.head_dim=5"},
       "/model/softmax/head_dim in --set model.softmax.head_dim=5 gives "
       "softmax "
       "heads of 5 channels, but rotary positions turn pairs."},
      {{"model.layer=transformer", "model.softmax.num_heads=1024"},
       "gives softmax heads of 1 channels"},
      {{"model.layer=transformer", "model.preconditioner={}"},
       "/model/preconditioner scales the delta rule's keys, but /model/layer "
       "in "
       "--set model.layer=transformer is \"transformer\""},
      {{"training.device=cuda", "model.hidden_size=1000", "model.num_heads=10"},
       "gives key heads of 100 channels, but /training/device is \"cuda\", "
       "whose kernels take multiples of 8 up to 256."},
      {{"training.device=cuda", "model.num_heads=2"},
       "gives key heads of 512 channels"},
      {{"training.device=cuda", "model.layer=gdn", "model.head_dim=128",
        "model.expand_v=4"},
       "/model/expand_v in --set model.expand_v=4 gives value heads of 512"},
      // gates
      {{"model.layer=kda", "model.safe_gate=true"},
       "/model/safe_gate in --set model.safe_gate=true is true, but "
       "/model/lower_bound is not given. Give a number from -5 to below 0."},
      {{"model.layer=kda", "model.safe_gate=true", "model.lower_bound=-6"},
       "/model/lower_bound in --set model.lower_bound=-6 is -6, but must be "
       "from -5 to below 0 while /model/safe_gate is true."},
      {{"model.layer=kda", "model.lower_bound=0"},
       "is 0, but must be a number from -1000 to below 0."},
      // preconditioner
      {{pre + "retention=tied"},
       "/model/preconditioner/retention in --set "
       "model.preconditioner.retention=tied is \"tied\", but /model/layer is "
       "\"deltanet\", which has no decay to tie it to."},
      {{"model.layer=kda", pre + "retention=tied"},
       "is \"tied\", but /model/layer is \"kda\", whose decay is per channel."},
      {{pre + "d_min=3"},
       "is 3, which is above /model/preconditioner/d_max = 2."},
      {{pre + "d0_init=0.25"},
       "is 0.25, which lies outside the box from /model/preconditioner/d_min "
       "= 0.5 to /model/preconditioner/d_max = 2."},
      {{pre + "d0_init=2.5"}, "is 2.5, which lies outside the box"},
      // data
      {{"data.context_length=70000"},
       "/data/context_length in --set data.context_length=70000 is 70000, "
       "which is longer than a row: /data/sequence_length = 65536."},
      {{"data.validation=[\"data/y\", \"data/x\"]"},
       "holds \"data/x\", which is in /data/train too."},
      // schedule
      {{"schedule.total_steps=100"},
       "/schedule/warmup_steps is 1024, which is longer than the schedule: "
       "/schedule/total_steps = 100."},
      {{"schedule.kind=wsd", "schedule.total_steps=100",
        "schedule.warmup_steps=20", "schedule.decay_steps=81"},
       "is 81, which does not fit between /schedule/warmup_steps = 20 and "
       "/schedule/total_steps = 100. Use at most 80."},
      // training
      {{"training.micro_batch=3"},
       "/training/micro_batch in --set training.micro_batch=3 is 3, which "
       "does not divide /training/global_batch = 8. Use 1, 2, 4 or 8."},
      {{"training.micro_batch=16"}, "is 16, which does not divide"},
      {{"training.cuda_graph=on", "training.device=cpu"},
       "is \"on\", but /training/device is \"cpu\"."},
      {{"training.cuda_graph=on", "model.softmax.layers=[0]"},
       "softmax layers work document by document"},
      {{"training.dtype=fp64", "training.device=cuda"},
       "is \"fp64\", but /training/device is \"cuda\"."},
      {{"training.dtype=bf16", "training.device=cpu"},
       "is \"bf16\", but /training/device is \"cpu\"."},
      {{"training.validate_every=10"},
       "has no effect here: it counts only where data.validation is given"},
      {{"training.steps=1000000000", "training.global_batch=1048576",
        "data.sequence_length=16777216"},
       "is more than 63 bits can count"},
      {{"checkpoint.keep_every=1500"},
       "is 1500, which is not a multiple of /checkpoint/every = 1000"},
  };
}

TEST(Validate, G2_impossible_combinations_are_refused) {
  for (const Impossible& item : impossible()) {
    try {
      parse(kMinimal, "my.json", item.overrides);
      ADD_FAILURE() << "accepted: " << item.expected;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::kUsage);
      EXPECT_THAT(error.what(), HasSubstr(item.expected));
      EXPECT_THAT(error.what(), ::testing::Not(HasSubstr("problems")))
          << "one fault should be one message";
    }
  }
}

TEST(Validate, G3_batch_that_does_not_divide_lists_the_valid_values) {
  try {
    parse(kMinimal, "my.json",
          {"training.global_batch=60", "training.micro_batch=7"});
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("Use 4, 5, 6, 10 or 12."));
  }
}

TEST(Validate, the_other_side_of_each_limit_is_legal) {
  const std::string pre = "model.preconditioner.";
  for (const std::vector<std::string>& overrides :
       std::vector<std::vector<std::string>>{
           {"model.num_heads=16"},
           {"model.layer=transformer"},
           {"model.layer=transformer", "model.hidden_size=32"},
           {"model.layer=transformer", "training.device=cuda",
            "model.softmax.num_heads=4"},
           {"model.layer=transformer", "model.hidden_size=200",
            "model.softmax.num_heads=3", "model.softmax.head_dim=64"},
           {"model.softmax.layers=[0, 23]", "model.softmax.num_kv_heads=1"},
           {"model.softmax.layers=[]"},
           {"model.layer=kda", "model.preconditioner={}",
            "model.softmax.layers=[5]"},
           {"model.expand_k=0.5", "model.num_heads=16"},
           {"model.layer=gdn", "model.head_dim=2", "model.expand_v=1.5"},
           {"model.layer=gdn", "model.num_heads=6", "model.num_v_heads=12"},
           {"training.device=cuda", "model.num_heads=4"},
           {"training.device=cpu", "model.hidden_size=1000",
            "model.num_heads=10"},
           {"model.layer=kda", "model.safe_gate=true", "model.lower_bound=-5"},
           {"model.layer=kda", "model.lower_bound=-6"},
           {"model.layer=gdn", pre + "retention=tied"},
           {pre + "d_min=1", pre + "d_max=1"},
           {pre + "d0_init=0.5"},
           {pre + "eta=0"},
           {"data.context_length=65536"},
           {"data.validation=[\"data/y\"]", "training.validate_every=10"},
           {"training.validate_every=0"},
           {"schedule.total_steps=1024"},
           {"schedule.kind=wsd", "schedule.total_steps=100",
            "schedule.warmup_steps=20", "schedule.decay_steps=80"},
           {"training.micro_batch=8"},
           {"training.dtype=fp64"},
           {"training.dtype=bf16"},
           {"checkpoint.keep_every=3000"},
       }) {
    EXPECT_NO_THROW(parse(kMinimal, "my.json", overrides)) << overrides.front();
  }
}

TEST(Validate, R2_training_and_schedule_may_differ_in_length) {
  EXPECT_NO_THROW(
      parse(kMinimal, "f", {"schedule.total_steps=2000", "training.steps=50"}));
  EXPECT_NO_THROW(parse(kMinimal, "f",
                        {"schedule.total_steps=2000", "training.steps=9000"}));
  EXPECT_NO_THROW(
      parse(kMinimal, "f", {"schedule.kind=wsd", "schedule.decay_steps=0"}));
}

// Keys that would change nothing are refused, not ignored.
TEST(Validate, G4_keys_without_effect_are_refused) {
  const std::string pre = "model.preconditioner.";
  const std::vector<Impossible> cases = {
      {{"model.softmax.num_heads=4"}, "/model/softmax/num_heads"},
      {{"model.softmax.rope_theta=500"}, "/model/softmax/rope_theta"},
      {{"model.softmax.layers=[]", "model.softmax.head_dim=64"},
       "/model/softmax/head_dim"},
      {{"model.layer=transformer", "model.softmax.layers=[1]"},
       "/model/softmax/layers"},
      {{"model.layer=transformer", "model.num_heads=8"}, "/model/num_heads"},
      {{"model.layer=transformer", "model.head_dim=64"}, "/model/head_dim"},
      {{"model.layer=transformer", "model.conv_size=4"}, "/model/conv_size"},
      {{"model.layer=transformer", "model.use_gate=true"}, "/model/use_gate"},
      {{"model.layer=transformer", "model.expand_v=1"}, "/model/expand_v"},
      {{"model.layer=transformer", "model.allow_neg_eigval=true"},
       "/model/allow_neg_eigval"},
      {{"model.head_dim=128"}, "/model/head_dim"},
      {{"model.num_v_heads=8"}, "/model/num_v_heads"},
      {{"model.layer=gdn", "model.expand_k=1"}, "/model/expand_k"},
      {{"model.layer=kda", "model.use_beta=true"}, "/model/use_beta"},
      {{"model.layer=gdn", "model.qk_norm=l2"}, "/model/qk_norm"},
      {{"model.layer=gdn", "model.qk_activation=silu"}, "/model/qk_activation"},
      {{"model.layer=kda", "model.use_gate=true"}, "/model/use_gate"},
      {{"model.layer=gdn", "model.safe_gate=false"}, "/model/safe_gate"},
      {{"model.lower_bound=-1"}, "/model/lower_bound"},
      {{"model.use_short_conv=false", "model.conv_size=4"}, "/model/conv_size"},
      {{"model.intermediate_size=512", "model.hidden_ratio=4"},
       "/model/hidden_ratio"},
      {{pre + "retention_bias=5"}, "/model/preconditioner/retention_bias"},
      {{"model.use_beta=false", pre + "beta_aware=true"},
       "/model/preconditioner/beta_aware"},
      {{"schedule.decay_steps=10"}, "/schedule/decay_steps"},
      {{"schedule.kind=constant", "schedule.min_lr_ratio=0"},
       "/schedule/min_lr_ratio"},
      {{"schedule.kind=constant", "schedule.total_steps=2000"},
       "/schedule/total_steps"},
      {{"optimizer.weight_decay=0", "optimizer.decay_exempt=true"},
       "/optimizer/decay_exempt"},
      {{"training.non_finite=stop", "training.max_skips=3"},
       "/training/max_skips"},
      {{"training.validation_tokens=100"}, "/training/validation_tokens"},
      {{"checkpoint.every=0", "checkpoint.keep_every=100"},
       "/checkpoint/keep_every"},
  };
  for (const Impossible& item : cases) {
    try {
      parse(kMinimal, "my.json", item.overrides);
      ADD_FAILURE() << "accepted: " << item.expected;
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr(item.expected + " in --set "));
      EXPECT_THAT(error.what(), HasSubstr("has no effect here: it counts "
                                          "only where "));
    }
  }
}

TEST(Validate, a_refused_value_is_not_judged_twice) {
  try {
    parse(kMinimal, "my.json",
          {"model.num_heads=-7", "model.layer=rnn", "model.head_dim=5"});
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("2 problems"));
  }
}

TEST(Validate, a_configuration_built_in_code) {
  Config config;
  config.training.validate_every = 0;
  EXPECT_NO_THROW(validate(config));
  config.model.num_heads = 7;
  config.optimizer.lr = std::numeric_limits<double>::quiet_NaN();
  config.training.steps = 0;
  config.schedule.kind = "sine";
  try {
    validate(config);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kUsage);
    EXPECT_THAT(error.what(), HasSubstr("4 problems in the configuration"));
    EXPECT_THAT(error.what(),
                HasSubstr("/model/num_heads is 7, which does not divide"));
    EXPECT_THAT(error.what(), HasSubstr("/optimizer/lr is nan, but must be"));
  }
}

}  // namespace
}  // namespace osdn::config
