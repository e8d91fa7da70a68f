// osdn-eval: the evaluation suite on a trained model, and comparisons.

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <iostream>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

#include "command_line.h"
#include "join_ranks.h"
#include "osdn/core/concat.h"
#include "osdn/core/error.h"
#include "osdn/core/file.h"
#include "osdn/core/log.h"
#include "osdn/core/path.h"
#include "osdn/core/run_main.h"
#include "osdn/core/short_spin.h"
#include "osdn/core/utc_time.h"
#include "osdn/core/version.h"
#include "osdn/dist/cores.h"
#include "osdn/dist/end_process.h"
#include "osdn/dist/gpu_choice.h"
#include "osdn/dist/world.h"
#include "osdn/eval/answer_log.h"
#include "osdn/eval/compare.h"
#include "osdn/eval/csv_tables.h"
#include "osdn/eval/evaluation.h"
#include "osdn/eval/result.h"
#include "osdn/eval/task_table.h"
#include "output_files.h"

namespace {

using osdn::ExitCode;

struct Arguments {
  osdn::eval::EvalOptions eval;
  std::optional<std::filesystem::path> out;
  std::optional<std::filesystem::path> samples;
  std::optional<std::filesystem::path> csv;
  std::vector<std::filesystem::path> compare;
  bool force = false;
  bool hash_requests = false;

  /// What the call is for.
  std::string purpose() const {
    if (!compare.empty()) return "--compare";
    if (eval.tasks == std::vector<std::string>{"list"}) return "--task list";
    return hash_requests ? "--hash-requests" : "evaluation";
  }
};

void add_options(CLI::App& app, Arguments& args) {
  osdn::eval::EvalOptions& eval = args.eval;
  app.add_option("--task", eval.tasks,
                 "tasks and groups, separated by commas; list shows them")
      ->delimiter(',');
  app.add_option("--model", eval.model,
                 "run folder or checkpoint folder; dummy: a model without "
                 "weights, for trying data and metrics")
      ->check(osdn::apps::check_path);
  app.add_option("--data", eval.data.inputs,
                 "what the tasks read: files, also .zst, or folders, which are "
                 "searched for each task's file")
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
      ->check(osdn::apps::whole_number)
      ->capture_default_str();
  app.add_option("--threads", eval.threads, "threads; 0: all cores")
      ->check(osdn::apps::whole_number)
      ->capture_default_str();
  app.add_option("--limit", eval.data.limit, "first N documents only")
      ->check(osdn::apps::whole_number);
  app.add_option("--shots", eval.shots,
                 "solved examples in front of each context")
      ->check(osdn::apps::whole_number);
  app.add_option("--shots-file", eval.shots_file,
                 "where they come from; its rows are like the task's own")
      ->check(osdn::apps::check_path);
  app.add_option("--parity", eval.parity,
                 "longppl: fla, begin tokens and a scored end as there");
  app.add_flag("--per-doc", eval.per_doc,
               "longppl: the first block of each document only");
  app.add_option("--answers", eval.answers,
                 "keeps answers as they come and takes up an interrupted call; "
                 "else beside --out, and removed at the end")
      ->check(osdn::apps::check_path);
  CLI::Option* const hashes = app.add_flag(
      "--hash-requests", args.hash_requests,
      "count and SHA-256 of each task's requests, without scoring");
  app.add_option("--out", args.out, "results as JSON")
      ->check(osdn::apps::check_path);
  app.add_option("--samples", args.samples, "one JSON line a request")
      ->check(osdn::apps::check_path);
  app.add_option("--csv", args.csv,
                 "folder for the tables of longppl, q_geo, niah and records as "
                 "CSV")
      ->check(osdn::apps::check_path);
  CLI::Option* const compare =
      app.add_option("--compare", args.compare,
                     "two result files: print them side by side")
          ->expected(2)
          ->check(osdn::apps::check_path);
  app.add_flag("--force", args.force,
               "compare rows of different protocol or data")
      ->needs(compare);
  for (const char* output : {"--out", "--samples", "--csv"}) {
    hashes->excludes(app.get_option(output));
  }
}

/// Of the tasks that generate text, and of those whose data is generated.
void add_recall_options(CLI::App& app, osdn::eval::EvalOptions& eval) {
  osdn::eval::GeneratedTaskOptions& generated = eval.generated;
  app.add_option("--protocol", eval.protocol,
                 "jrt: jrt-once, jrt-twice, upstream, upstream-v0, "
                 "osdn-authors-once, osdn-authors-twice; records: once, twice, "
                 "or jrt's; longbench: middle, left; else the task's own");
  app.add_option("--context-length", eval.context_length,
                 "jrt: tokens of a document's cut and its answer")
      ->check(osdn::apps::whole_number)
      ->capture_default_str();
  app.add_option("--answer-length", eval.answer_length,
                 "jrt: what the cut leaves free of them")
      ->check(osdn::apps::whole_number)
      ->capture_default_str();
  app.add_option("--trunc-side", eval.trunc_side,
                 "osdn-authors: which end of a long prompt goes, right or left")
      ->capture_default_str();
  app.add_option("--seed", eval.seed, "of generated tasks; else 1234")
      ->check(osdn::apps::integer_from(0));
  app.add_option("--documents", generated.documents,
                 "generated tasks: documents; else 500, mqar 1000")
      ->check(osdn::apps::whole_number);
  app.add_option("--words", generated.words,
                 "generated tasks: folder with nounlist.txt and "
                 "adjectivelist.txt; else built-in words")
      ->check(osdn::apps::check_path);
  app.add_option("--haystack", generated.haystack,
                 "niah: text to hide needles in; else generated sentences")
      ->check(osdn::apps::check_path);
  app.add_option("--target-tokens", generated.target_tokens,
                 "niah: lengths of prompt and answer")
      ->check(osdn::apps::whole_number)
      ->delimiter(',')
      ->capture_default_str();
  app.add_option("--mode", generated.mode,
                 "records: unique, same, update or scoped")
      ->capture_default_str();
  app.add_option("--record-tokens", generated.record_tokens,
                 "records: most tokens of a document")
      ->check(osdn::apps::whole_number)
      ->capture_default_str();
  app.add_option("--records", generated.records,
                 "records: lines of a document instead, as 16,32,64,128")
      ->check(osdn::apps::whole_number)
      ->delimiter(',');
  app.add_option("--repeat", generated.repeat,
                 "records: pages of the queried name in same and update")
      ->check(osdn::apps::whole_number)
      ->capture_default_str();
  app.add_option("--mqar-sizes", generated.mqar_sizes,
                 "mqar: length:pairs, as 64:4,128:8; else Zoology's")
      ->delimiter(',');
  app.add_option("--mqar-vocab", generated.mqar_vocab, "mqar: ids")
      ->check(osdn::apps::whole_number)
      ->capture_default_str();
  app.add_option("--mqar-passes", generated.mqar_passes,
                 "mqar: how often the keys are shown")
      ->check(osdn::apps::whole_number)
      ->capture_default_str();
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

/// What the user gave to be read.
std::vector<std::filesystem::path> inputs_of(
    const osdn::eval::EvalOptions& options) {
  std::vector<std::filesystem::path> inputs = options.data.inputs;
  for (const auto& input :
       {options.tokenizer, options.shots_file, options.generated.haystack}) {
    if (input) inputs.push_back(*input);
  }
  if (options.generated.words) {
    for (const char* name : {"nounlist.txt", "adjectivelist.txt"}) {
      inputs.push_back(*options.generated.words / name);
    }
  }
  return inputs;
}

/// Before hours of work, not after: what this rank is to write.
void check_outputs(const Arguments& args, int rank) {
  std::vector<std::filesystem::path> taken = inputs_of(args.eval);
  const auto check = [&](const char* option,
                         const std::optional<std::filesystem::path>& file) {
    osdn::apps::check_output(option, file, taken);
    if (file) taken.push_back(*file);
  };
  check("--out", args.out);
  check("--samples", args.samples);
  check("--answers", args.eval.answers);
  if (args.eval.answers && rank > 0) {
    check("--answers", osdn::eval::answers_of_rank(*args.eval.answers, rank));
  }
  if (args.csv) osdn::check_folder_creatable(*args.csv);
}

ExitCode report_failures(const std::vector<osdn::eval::TaskFailure>& failures,
                         bool aloud = true) {
  for (const osdn::eval::TaskFailure& failure : failures) {
    if (aloud) osdn::log::error("task ", failure.task, ": ", failure.message);
  }
  return failures.empty() ? ExitCode::kOk : failures.front().code;
}

void write_files(const Arguments& args,
                 const osdn::eval::Evaluation& evaluation,
                 const std::string& command) {
  if (args.out) {
    osdn::write_file_atomic(
        *args.out,
        osdn::eval::to_json({osdn::commit(), osdn::utc_now(), evaluation.device,
                             command, evaluation.results}));
  }
  if (args.samples) {
    osdn::write_file_atomic(*args.samples, evaluation.samples);
  }
  if (args.csv) {
    std::filesystem::create_directories(*args.csv);
    for (const auto& table : osdn::eval::csv_tables(evaluation.results)) {
      osdn::write_file_atomic(*args.csv / table.name, table.text);
    }
  }
}

/// The log of answers, now that the results are on disk: it stays where it can
/// be of use. Each rank finds the files of all.
void close_answers(const std::filesystem::path& log,
                   const osdn::eval::Evaluation& evaluation, bool aloud) {
  const auto files = osdn::eval::answer_files(log);
  const bool failed = !evaluation.failures.empty();
  if (!failed && evaluation.answers_spent) {
    std::error_code gone;
    for (const auto& file : files) std::filesystem::remove(file, gone);
  } else if (aloud && !files.empty()) {
    osdn::log::warn(
        log.string(), " stays: ",
        failed ? "the same call takes up the answers in it once what is wrong "
                 "with the other tasks is mended"
               : "it holds answers of a call with other options, which that "
                 "call takes up",
        "; delete it if there will be none");
  }
}

/// This rank's cores and GPU, and its part in the evaluation.
osdn::eval::Ranks join(osdn::dist::World& world,
                       osdn::eval::EvalOptions& options) {
  osdn::dist::WatchOptions watch;
  watch.on_failure = osdn::dist::end_process("osdn-eval");
  world.start_watch(watch);
  osdn::dist::take_own_gpu(world.place());
  const osdn::dist::CoreShare share = osdn::dist::core_share(world);
  if (options.threads == 0 && share.sharers > 1) {
    options.threads = share.cores;
  }
  return {world.place().rank, world.place().size,
          [&world](const std::string& mine) { return world.all(mine); }};
}

ExitCode evaluate_as_rank(Arguments args, const std::string& command,
                          osdn::dist::World& world) {
  // The dummy has its answers at once.
  const bool own_log = args.out && !args.eval.answers && !is_dummy(args.eval);
  if (own_log) args.eval.answers = args.out->string() + ".answers.jsonl";
  world.agree([&] {
    if (args.eval.model.empty()) {
      throw osdn::Error(
          "--model is missing: a run folder or checkpoint folder, or dummy",
          ExitCode::kUsage);
    }
    check_outputs(args, world.place().rank);
  });
  const osdn::eval::Ranks ranks = join(world, args.eval);
  const osdn::eval::Evaluation evaluation =
      osdn::eval::evaluate(args.eval, ranks);
  world.agree([&] {
    if (!world.place().first()) return;
    if (!evaluation.results.empty()) {
      std::cout << osdn::eval::results_table(evaluation.results) << std::flush;
    }
    write_files(args, evaluation, command);
  });
  if (own_log) {
    close_answers(*args.eval.answers, evaluation, world.place().first());
  }
  return report_failures(evaluation.failures, world.place().first());
}

ExitCode evaluate(const Arguments& args, const std::string& command,
                  osdn::dist::World& world) {
  world.set_timeout(std::chrono::seconds(60));
  ExitCode code = ExitCode::kOk;
  world.run([&] { code = evaluate_as_rank(args, command, world); });
  return code;
}

ExitCode hash_requests(const osdn::eval::EvalOptions& options) {
  osdn::eval::EvalOptions without_weights = options;
  if (options.model.empty()) without_weights.model = "dummy";
  const auto hashes = osdn::eval::request_hashes(without_weights);
  std::cout << hashes.table << std::flush;
  return report_failures(hashes.failures);
}

void refuse_all_but(const std::vector<std::string>& taken,
                    const std::vector<std::string>& given,
                    const std::string& purpose) {
  for (const std::string& name : given) {
    if (std::find(taken.begin(), taken.end(), name) != taken.end()) continue;
    throw osdn::Error(
        osdn::concat(name, " has no effect with ", purpose, "; leave it out"),
        ExitCode::kUsage);
  }
}

/// What asks no model: one rank can do it for all.
ExitCode look(const Arguments& args, const std::string& purpose) {
  if (purpose == "--hash-requests") return hash_requests(args.eval);
  if (purpose == "--task list") {
    refuse_all_but({"--task"}, args.eval.given, purpose);
    std::cout << osdn::eval::task_list();
  } else {
    refuse_all_but({"--compare", "--force"}, args.eval.given, purpose);
    std::cout << osdn::eval::compare_results(args.compare[0], args.compare[1],
                                             args.force);
  }
  return ExitCode::kOk;
}

ExitCode run(int argc, char** argv) {
  CLI::App app("Evaluate a trained model.", "osdn-eval");
  app.set_version_flag("--version", osdn::version_line("osdn-eval"));
  Arguments args;
  add_options(app, args);
  add_recall_options(app, args.eval);
  const auto end = osdn::apps::try_parse(app, argc, argv);
  std::optional<osdn::dist::World> world;
  if (const auto code = osdn::apps::join_ranks(end, world)) return *code;
  args.eval.given = osdn::apps::given_options(app);
  const std::string purpose = args.purpose();
  osdn::apps::check_same_task(*world, purpose);
  osdn::apps::check_same_options(*world, argc, argv);
  if (purpose == "evaluation") {
    return evaluate(args, command_line(argc, argv), *world);
  }
  ExitCode code = ExitCode::kOk;
  world->agree([&] { code = look(args, purpose); });
  return code;
}

}  // namespace

int main(int argc, char** argv) {
  osdn::restart_with_short_spin(argv);
  return osdn::run_main(argc, argv, run);
}
