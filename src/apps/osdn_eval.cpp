// osdn-eval: perplexity and q_geo of a trained model, and comparisons.

#include <CLI/CLI.hpp>
#include <iostream>
#include <optional>
#include <string>
#include <vector>

#include "command_line.h"
#include "osdn/core/concat.h"
#include "osdn/core/error.h"
#include "osdn/core/file.h"
#include "osdn/core/log.h"
#include "osdn/core/run_main.h"
#include "osdn/core/short_spin.h"
#include "osdn/core/utc_time.h"
#include "osdn/core/version.h"
#include "osdn/eval/compare.h"
#include "osdn/eval/evaluation.h"
#include "osdn/eval/result.h"
#include "osdn/eval/tasks.h"
#include "output_files.h"

namespace {

using osdn::ExitCode;

struct Arguments {
  osdn::eval::EvalOptions eval;
  std::optional<std::filesystem::path> out;
  std::optional<std::filesystem::path> samples;
  std::vector<std::filesystem::path> compare;
  bool force = false;
};

void add_options(CLI::App& app, Arguments& args) {
  osdn::eval::EvalOptions& eval = args.eval;
  app.add_option("--task", eval.tasks,
                 "tasks, separated by commas; list shows them")
      ->delimiter(',');
  app.add_option("--model", eval.model, "run folder or checkpoint folder")
      ->check(osdn::apps::check_path);
  app.add_option("--data", eval.data.inputs,
                 "what the tasks read: .txt or .jsonl files, also .zst, or "
                 "folders of such")
      ->check(osdn::apps::check_path);
  app.add_option("--tokenizer", eval.tokenizer,
                 "SentencePiece model; else the one that the run names")
      ->check(osdn::apps::check_path);
  app.add_option("--split", eval.data.split,
                 ".txt: what a document is: file, lines, blank-lines or "
                 "marker:STRING")
      ->capture_default_str();
  app.add_option("--field", eval.data.field, ".jsonl: the key of the text")
      ->capture_default_str();
  app.add_option("--bos", eval.bos,
                 "1: a begin token of its own beside the prefix; protocol, 0 "
                 "or 1")
      ->capture_default_str();
  app.add_option("--rolling", eval.rolling,
                 "window: disjoint windows of --max-len; full: a document in "
                 "one pass, the state carried")
      ->capture_default_str();
  app.add_option("--max-len", eval.max_len,
                 "window in tokens, or none; else the run's context length");
  app.add_option("--device", eval.device, "auto, cpu or cuda")
      ->capture_default_str();
  app.add_option("--dtype", eval.dtype,
                 "auto, fp32, fp64 (on a CPU) or bf16 (on a GPU)")
      ->capture_default_str();
  app.add_option("--batch-tokens", eval.batch_tokens,
                 "tokens of one forward pass")
      ->capture_default_str();
  app.add_option("--threads", eval.threads, "threads; 0: all cores")
      ->capture_default_str();
  app.add_option("--limit", eval.data.limit, "first N documents only");
  app.add_option("--out", args.out, "results as JSON")
      ->check(osdn::apps::check_path);
  app.add_option("--samples", args.samples, "one JSON line a scored document")
      ->check(osdn::apps::check_path);
  app.add_option("--compare", args.compare,
                 "two result files: print them side by side")
      ->expected(2)
      ->check(osdn::apps::check_path);
  app.add_flag("--force", args.force,
               "compare rows of different protocol or data");
}

/// As a shell would take it again.
std::string command_line(int argc, char** argv) {
  std::string line;
  for (int i = 0; i < argc; ++i) {
    const std::string argument = argv[i];
    const bool plain = !argument.empty() &&
                       argument.find_first_of(" \t\n'\"\\$&|;<>()*?[]#~!`{}") ==
                           std::string::npos;
    line += i > 0 ? " " : "";
    if (plain) {
      line += argument;
      continue;
    }
    line += '\'';
    for (const char c : argument) {
      line += c == '\'' ? "'\\''" : std::string(1, c);
    }
    line += '\'';
  }
  return line;
}

/// Before hours of work, not after.
void check_outputs(const Arguments& args) {
  std::vector<std::filesystem::path> inputs = args.eval.data.inputs;
  if (args.eval.tokenizer) inputs.push_back(*args.eval.tokenizer);
  osdn::apps::check_output("--out", args.out, inputs);
  if (args.out) inputs.push_back(*args.out);
  osdn::apps::check_output("--samples", args.samples, inputs);
}

ExitCode evaluate(const Arguments& args, const std::string& command) {
  if (args.eval.model.empty()) {
    throw osdn::Error("--model is missing: a run folder or checkpoint folder",
                      ExitCode::kUsage);
  }
  check_outputs(args);
  const osdn::eval::Evaluation evaluation = osdn::eval::evaluate(args.eval);
  if (!evaluation.results.empty()) {
    std::cout << osdn::eval::results_table(evaluation.results) << std::flush;
  }
  if (args.out) {
    osdn::write_file_atomic(
        *args.out,
        osdn::eval::to_json({osdn::commit(), osdn::utc_now(), evaluation.device,
                             command, evaluation.results}));
  }
  if (args.samples) {
    osdn::write_file_atomic(*args.samples, evaluation.samples);
  }
  for (const osdn::eval::TaskFailure& failure : evaluation.failures) {
    osdn::log::error("task ", failure.task, ": ", failure.message);
  }
  return evaluation.failures.empty() ? ExitCode::kOk
                                     : evaluation.failures.front().code;
}

ExitCode run(int argc, char** argv) {
  CLI::App app("Evaluate a trained model.", "osdn-eval");
  app.set_version_flag("--version", osdn::version_line("osdn-eval"));
  Arguments args;
  add_options(app, args);
  if (const auto code = osdn::apps::parse(app, argc, argv)) {
    return *code;
  }
  if (!args.compare.empty()) {
    std::cout << osdn::eval::compare_results(args.compare[0], args.compare[1],
                                             args.force);
    return ExitCode::kOk;
  }
  if (args.eval.tasks == std::vector<std::string>{"list"}) {
    std::cout << osdn::eval::task_list();
    return ExitCode::kOk;
  }
  return evaluate(args, command_line(argc, argv));
}

}  // namespace

int main(int argc, char** argv) {
  osdn::restart_with_short_spin(argv);
  return osdn::run_main(argc, argv, run);
}
