#pragma once
// A task's requests from rows that a test writes, without a model.

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "osdn/core/file.h"
#include "osdn/eval/dummy_model.h"
#include "osdn/eval/task_table.h"
#include "support/temp_dir.h"

namespace osdn::test {

/// The task of the table.
inline const eval::TaskDefinition& task_named(const std::string& name) {
  return *eval::select_tasks({name}).front().definition;
}

/// What the task makes of its options.
inline std::vector<eval::PreparedTask> prepared(
    const std::string& name, const eval::EvalOptions& options,
    const tokenizer::Tokenizer* tokenizer = nullptr) {
  const eval::TaskDefinition& task = task_named(name);
  return task.prepare({task.info, options, std::nullopt, tokenizer});
}

/// Of a file with these rows.
inline eval::PreparedTask prepared_from(const std::string& name,
                                        const std::string& rows) {
  const TempDir dir;
  write_file_atomic(dir / "rows.jsonl", rows);
  eval::EvalOptions options;
  options.data.inputs = {dir / "rows.jsonl"};
  return std::move(prepared(name, options).front());
}

/// Every answer of a responder, in order.
inline std::vector<eval::Answer> answers_of(eval::BatchRun& run,
                                            std::size_t rows) {
  std::vector<eval::Answer> answers(rows);
  std::vector<int> times(rows);
  for (std::size_t pack = 0; pack < run.packs().size(); ++pack) {
    run.answer(
        pack,
        [&](std::size_t row, eval::Answer answer) {
          answers.at(row) = std::move(answer);
          ++times.at(row);
        },
        [](std::int64_t) {});
  }
  for (const int count : times) EXPECT_EQ(count, 1);
  return answers;
}

inline std::vector<eval::Answer> dummy_answers(const eval::PreparedTask& task) {
  eval::DummyModel model;
  return answers_of(*model.begin(task.batch), task.batch.requests.size());
}

}  // namespace osdn::test
