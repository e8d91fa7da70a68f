// Saved states: what is written comes back, what is damaged does not.

#include "osdn/generate/state_file.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/rand.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "osdn/checkpoint/safetensors.h"
#include "osdn/core/error.h"
#include "osdn/core/file.h"
#include "osdn/model/model_state.h"
#include "support/temp_dir.h"

namespace osdn::generate {
namespace {

using testing::HasSubstr;

SequenceState sequence(std::uint64_t index, bool started) {
  SequenceState s;
  s.index = index;
  s.fed = 17;
  s.drawn = 5;
  s.feed = {7, 8, 2000000};
  s.seen = {3, 7, 8, 9};
  s.pending = {"\xE2\x82", "EN\n"};
  s.finish = Finish::kLength;
  if (!started) return s;
  s.state.layers.resize(2);
  for (auto& layer : s.state.layers) {
    layer.state = at::rand({1, 2, 3, 4});
    layer.conv_q = at::rand({1, 6, 3}).to(at::kDouble);
  }
  s.state.layers[1].d = at::rand({1, 2, 3});
  s.state.layers[1].cache_k = at::rand({1, 17, 2, 3});
  s.state.layers[1].cache_length = at::full({1}, 17, at::kDouble);
  return s;
}

SavedState sample() {
  SavedState saved;
  saved.owner = {"runs/a", "c0ffee", "0123", "beef", "fp32"};
  saved.sampling = {0.7, 40, 0.9, 1.1, 0xFFFFFFFFFFFFFFFFULL};
  saved.stops = {"END", "\xE4\xBA\xAC"};
  saved.sequences = {sequence(0, true), sequence(1, false), sequence(2, true)};
  saved.sequences[1].finish.reset();
  saved.sequences[2].pending = {};
  return saved;
}

class StateFile : public testing::Test {
 protected:
  std::string error_of() const {
    try {
      load_state(path());
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::kBadInput);
      EXPECT_THAT(error.what(), HasSubstr("s.state"));
      return error.what();
    }
    return "";
  }
  std::filesystem::path path() const { return dir_ / "s.state"; }
  test::TempDir dir_;
};

TEST_F(StateFile, comes_back_as_it_was) {
  const SavedState saved = sample();
  save_state(path(), saved);
  const SavedState read = load_state(path());
  EXPECT_EQ(read.owner.model, "runs/a");
  EXPECT_NO_THROW(check_owner(read.owner, saved.owner, path()));
  EXPECT_EQ(read.sampling, saved.sampling);
  EXPECT_EQ(read.stops, saved.stops);
  ASSERT_EQ(read.sequences.size(), 3U);
  for (std::size_t i = 0; i < 3; ++i) {
    const SequenceState& a = saved.sequences[i];
    const SequenceState& b = read.sequences[i];
    EXPECT_EQ(a.index, b.index);
    EXPECT_EQ(a.fed, b.fed);
    EXPECT_EQ(a.drawn, b.drawn);
    EXPECT_EQ(a.feed, b.feed);
    EXPECT_EQ(a.seen, b.seen);
    EXPECT_EQ(a.pending, b.pending);
    EXPECT_EQ(a.finish, b.finish);
    ASSERT_EQ(a.state.layers.size(), b.state.layers.size());
    for (std::size_t layer = 0; layer < a.state.layers.size(); ++layer) {
      for (const model::StateTensor& entry : model::state_tensors()) {
        const at::Tensor& x = a.state.layers[layer].*entry.tensor;
        const at::Tensor& y = b.state.layers[layer].*entry.tensor;
        ASSERT_EQ(x.defined(), y.defined()) << entry.name;
        EXPECT_TRUE(!x.defined() || at::equal(x, y)) << entry.name;
      }
    }
  }
  save_state(path(), read);  // over the older one
  EXPECT_EQ(error_of(), "");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(dir_.path()), {}),
            1);
}

TEST_F(StateFile, every_damaged_byte_of_tensors_and_text_is_seen) {
  save_state(path(), sample());
  const std::string sound = read_file(path());
  for (std::size_t at = 8; at < sound.size(); at += 41) {
    std::string damaged = sound;
    damaged[at] = static_cast<char>(damaged[at] ^ 4);
    write_file_atomic(path(), damaged);
    EXPECT_NE(error_of(), "") << at;
  }
  for (std::size_t size = 0; size < sound.size(); size += 97) {
    write_file_atomic(path(), sound.substr(0, size));
    EXPECT_NE(error_of(), "") << size;
  }
}

TEST_F(StateFile, other_files_are_refused) {
  at::Tensor tensor = at::rand({2});
  const std::vector<TensorView> views = {
      {"w", DType::kF32, {2}, tensor.data_ptr()}};
  checkpoint::write_safetensors(path(), views);
  EXPECT_THAT(error_of(), HasSubstr("expected a file of osdn-generate"));
  checkpoint::write_safetensors(path(), views,
                                {{"osdn_format", "osdn-state/2"}});
  EXPECT_THAT(error_of(), HasSubstr("its format is osdn-state/2"));
}

TEST_F(StateFile, a_state_with_nan_is_not_saved) {
  SavedState saved = sample();
  save_state(path(), saved);
  const std::string before = read_file(path());
  saved.sequences[0].state.layers[1].d[0][1][2] = std::nan("");
  EXPECT_THROW(save_state(path(), saved), Error);
  EXPECT_EQ(read_file(path()), before);
}

TEST_F(StateFile, the_owner_is_checked_in_every_part) {
  const StateOwner owner = sample().owner;
  const auto message_of = [&](auto change) -> std::string {
    StateOwner now = owner;
    change(now);
    try {
      check_owner(owner, now, path());
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(message_of([](StateOwner& o) { o.model = "moved"; }), "");
  EXPECT_THAT(message_of([](StateOwner& o) { o.config_hash = "x"; }),
              HasSubstr("the model configuration c0ffee"));
  EXPECT_THAT(message_of([](StateOwner& o) { o.weights_hash = "x"; }),
              HasSubstr("the weights 0123 (runs/a), this one has x"));
  EXPECT_THAT(message_of([](StateOwner& o) { o.tokenizer_hash = "x"; }),
              HasSubstr("the tokenizer beef"));
  EXPECT_THAT(message_of([](StateOwner& o) { o.dtype = "fp64"; }),
              HasSubstr("dtype fp32"));
}

}  // namespace
}  // namespace osdn::generate
