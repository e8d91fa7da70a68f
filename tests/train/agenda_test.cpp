#include "osdn/train/agenda.h"

#include <gtest/gtest.h>

#include <vector>

namespace osdn::train {
namespace {

config::Config config_of(std::int64_t lines, std::int64_t validations,
                         std::int64_t saves) {
  config::Config config;
  config.logging.every = lines;
  config.data.validation = {"v"};
  config.training.validate_every = validations;
  config.checkpoint.every = saves;
  return config;
}

TEST(Agenda, everything_is_due_at_its_multiples_and_at_the_end) {
  const Agenda agenda(config_of(2, 3, 4));
  std::vector<int> lines, validations, saves;
  for (int step = 1; step <= 13; ++step) {
    if (agenda.line_due(step, step == 13)) lines.push_back(step);
    if (agenda.validation_due(step, step == 13)) validations.push_back(step);
    if (agenda.save_due(step, step == 13)) saves.push_back(step);
  }
  EXPECT_EQ(lines, (std::vector<int>{2, 4, 6, 8, 10, 12, 13}));
  EXPECT_EQ(validations, (std::vector<int>{3, 6, 9, 12, 13}));
  EXPECT_EQ(saves, (std::vector<int>{4, 8, 12, 13}));
}

TEST(Agenda, counts_what_is_ahead) {
  for (const std::int64_t every : {0, 1, 3, 4, 13, 100}) {
    config::Config config = config_of(1, every, every);
    config.training.steps = 13;
    const Agenda agenda(config);
    for (std::int64_t from = 1; from <= 14; ++from) {
      std::int64_t validations = 0, saves = 0;
      for (std::int64_t step = from; step <= 13; ++step) {
        validations += agenda.validation_due(step, step == 13) ? 1 : 0;
        saves += agenda.save_due(step, step == 13) ? 1 : 0;
      }
      EXPECT_EQ(agenda.validations_from(from), validations) << from;
      EXPECT_EQ(agenda.saves_from(from), saves) << from;
    }
  }
}

TEST(Agenda, zero_means_never_but_the_end_is_saved) {
  const Agenda agenda(config_of(1, 0, 0));
  EXPECT_FALSE(agenda.validation_due(1000, true));
  EXPECT_FALSE(agenda.save_due(1000, false));
  EXPECT_TRUE(agenda.save_due(1000, true));
}

TEST(Agenda, without_validation_data_no_validation_is_due) {
  config::Config config = config_of(1, 5, 5);
  config.data.validation.clear();
  EXPECT_FALSE(Agenda(config).validation_due(5, true));
}

TEST(Agenda, what_is_saved_is_not_saved_again) {
  Agenda agenda(config_of(1, 0, 4), 8);
  EXPECT_FALSE(agenda.save_due(8, true));
  EXPECT_TRUE(agenda.unsaved(9));
  agenda.saved(9);
  EXPECT_FALSE(agenda.unsaved(9));
}

TEST(Agenda, C2_a_failed_save_is_tried_again_soon_until_it_works) {
  Agenda agenda(config_of(1, 0, 1000));
  agenda.save_failed(1000);
  EXPECT_FALSE(agenda.save_due(1000 + Agenda::kRetrySteps - 1, false));
  EXPECT_TRUE(agenda.save_due(1000 + Agenda::kRetrySteps, false));
  agenda.save_failed(1020);
  EXPECT_FALSE(agenda.save_due(1021, false));
  EXPECT_TRUE(agenda.save_due(1040, false));
  agenda.saved(1040);
  EXPECT_FALSE(agenda.save_due(1060, false));
  EXPECT_TRUE(agenda.save_due(2000, false));
}

}  // namespace
}  // namespace osdn::train
