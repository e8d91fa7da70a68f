// osdn-eval: perplexity and q_geo of a trained model, and comparisons.

#include <CLI/CLI.hpp>
#include <chrono>
#include <ctime>
#include <iostream>
#include <optional>
#include <string>
#include <vector>

#include "osdn/core/error.h"
#include "osdn/core/file.h"
#include "osdn/core/run_main.h"
#include "osdn/core/version.h"
#include "osdn/eval/compare.h"
#include "osdn/eval/evaluation.h"
#include "osdn/eval/result.h"
#include "osdn/report/table.h"

namespace {

using osdn::ExitCode;

struct Arguments {
  osdn::eval::EvalOptions eval;
  std::optional<std::filesystem::path> out;
  std::vector<std::filesystem::path> compare;
  bool force = false;
};

void add_options(CLI::App& app, Arguments& args) {
  osdn::eval::EvalOptions& eval = args.eval;
  app.add_option("--task", eval.tasks,
                 "tasks, separated by commas; list shows them")
      ->delimiter(',');
  app.add_option("--model", eval.model, "run folder or checkpoint folder");
  app.add_option("--data", eval.data,
                 ".txt or .jsonl files, also .zst, or folders of such");
  app.add_option("--tokenizer", eval.tokenizer,
                 "SentencePiece model; else the one that the run names");
  app.add_option("--split", eval.split,
                 ".txt: what a document is: file, lines, blank-lines or "
                 "marker:STRING")
      ->capture_default_str();
  app.add_option("--field", eval.field, ".jsonl: the key of the text")
      ->capture_default_str();
  app.add_option("--bos", eval.bos,
                 "1: a begin token of its own beside the prefix; protocol, 0 "
                 "or 1")
      ->capture_default_str();
  app.add_option("--max-len", eval.max_len,
                 "window in tokens, or none; else the run's context length");
  app.add_option("--dtype", eval.dtype, "fp32 or fp64")->capture_default_str();
  app.add_option("--batch-tokens", eval.batch_tokens,
                 "tokens of one forward pass")
      ->capture_default_str();
  app.add_option("--threads", eval.threads, "threads; 0: all cores")
      ->capture_default_str();
  app.add_option("--limit", eval.limit, "first N documents only");
  app.add_option("--out", args.out, "results as JSON");
  app.add_option("--samples", eval.samples,
                 "one JSON line a document, appended");
  app.add_option("--compare", args.compare,
                 "two result files: print their differences")
      ->expected(2);
  app.add_flag("--force", args.force,
               "compare rows of different protocol or data");
}

void list_tasks() {
  osdn::report::Table table({{"task", osdn::report::Align::kLeft},
                             {"measures", osdn::report::Align::kLeft},
                             {"needs", osdn::report::Align::kLeft}});
  for (const osdn::eval::TaskInfo& task : osdn::eval::known_tasks()) {
    table.add_row({task.name, task.measures, task.needs});
  }
  std::cout << table.text();
}

std::string utc_now() {
  const std::time_t now =
      std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  std::tm parts{};
  gmtime_r(&now, &parts);
  char text[32];
  std::strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

std::string command_line(int argc, char** argv) {
  std::string line;
  for (int i = 0; i < argc; ++i)
    line += (i > 0 ? " " : "") + std::string(argv[i]);
  return line;
}

ExitCode run(int argc, char** argv) {
  CLI::App app("Evaluate a trained model.", "osdn-eval");
  app.set_version_flag("--version", osdn::version_line("osdn-eval"));
  Arguments args;
  add_options(app, args);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? ExitCode::kOk : ExitCode::kUsage;
  }
  if (!args.compare.empty()) {
    std::cout << osdn::eval::compare_results(args.compare[0], args.compare[1],
                                             args.force);
    return ExitCode::kOk;
  }
  if (args.eval.tasks == std::vector<std::string>{"list"}) {
    list_tasks();
    return ExitCode::kOk;
  }
  if (args.eval.model.empty()) {
    throw osdn::Error("--model is missing: a run folder or checkpoint folder",
                      ExitCode::kUsage);
  }
  osdn::eval::EvalReport report;
  report.version = osdn::commit();
  report.date = utc_now();
  report.device = "cpu";
  report.command = command_line(argc, argv);
  report.results = osdn::eval::evaluate(args.eval);
  std::cout << osdn::eval::results_table(report.results);
  if (args.out) {
    osdn::write_file_atomic(*args.out, osdn::eval::to_json(report));
  }
  return ExitCode::kOk;
}

}  // namespace

int main(int argc, char** argv) {
  return osdn::run_main(argc, argv, run);
}
