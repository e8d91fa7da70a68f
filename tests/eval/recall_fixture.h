#pragma once
// Tasks of recall end to end, with the dummy model, whose output is the
// prompt's first 200 code points.

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "osdn/eval/evaluation.h"
#include "osdn/eval/python_text.h"
#include "support/temp_dir.h"
#include "support/tiny_model.h"

namespace osdn::eval {

class RecallTasks : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    shared_ = std::make_unique<test::TempDir>();
    test::write_tokenizer(*shared_ / "t.model");
    test::save_checkpoint(*shared_ / "osdn", 1, test::osdn_apf_model());
  }
  static void TearDownTestSuite() { shared_.reset(); }

  EvalOptions dummy(const std::string& task) const {
    EvalOptions o;
    o.tasks = {task};
    o.model = "dummy";
    o.tokenizer = *shared_ / "t.model";
    o.data.inputs = {dir_.path()};
    return o;
  }

  void put(const std::string& name,
           const std::vector<nlohmann::json>& rows) const {
    std::filesystem::create_directories((dir_ / name).parent_path());
    std::ofstream out(dir_ / name);
    for (const nlohmann::json& row : rows) out << row.dump() << "\n";
  }

  static Evaluation sound(const EvalOptions& options) {
    Evaluation found = evaluate(options);
    for (const TaskFailure& failure : found.failures) {
      ADD_FAILURE() << failure.task << ": " << failure.message;
    }
    return found;
  }

  static std::string failure(const EvalOptions& options) {
    const Evaluation found = evaluate(options);
    EXPECT_EQ(found.failures.size(), 1U);
    return found.failures.empty() ? "" : found.failures[0].message;
  }

  static const Result& result(const Evaluation& evaluation,
                              const std::string& metric,
                              const std::string& protocol) {
    for (const Result& r : evaluation.results) {
      if (r.metric == metric && r.protocol == protocol) return r;
    }
    throw std::runtime_error("no " + metric + " of " + protocol);
  }

  static std::vector<nlohmann::json> samples(const Evaluation& evaluation) {
    std::vector<nlohmann::json> out;
    std::istringstream lines(evaluation.samples);
    for (std::string line; std::getline(lines, line);) {
      out.push_back(nlohmann::json::parse(line));
    }
    return out;
  }

  /// The mean score of the samples, each found anew.
  static double mean_found(const std::vector<nlohmann::json>& rows,
                           const std::string& protocol) {
    double hits = 0;
    double n = 0;
    for (const nlohmann::json& row : rows) {
      if (row.at("protocol") != protocol) continue;
      const std::string label = row.at("label");
      const bool hit =
          find_ignoring_case(std::string(row.at("output")), label).has_value();
      EXPECT_EQ(row.at("score"), hit ? 1 : 0);
      hits += hit;
      ++n;
    }
    return hits / n;
  }

  inline static std::unique_ptr<test::TempDir> shared_;
  test::TempDir dir_;
};

inline nlohmann::json fda(const std::string& text, const std::string& key,
                          const std::string& value) {
  return {{"text", text}, {"key", key}, {"value", value}};
}

}  // namespace osdn::eval
