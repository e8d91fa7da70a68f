// osdn-generate: continues texts with a trained model.

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <iostream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "command_line.h"
#include "osdn/core/concat.h"
#include "osdn/core/error.h"
#include "osdn/core/log.h"
#include "osdn/core/run_main.h"
#include "osdn/core/short_spin.h"
#include "osdn/core/version.h"
#include "osdn/generate/generation.h"
#include "osdn/generate/prompts.h"
#include "osdn/report/format.h"
#include "osdn/train/stop_request.h"
#include "output_files.h"

namespace {

using osdn::concat;
using osdn::Error;
using osdn::ExitCode;
using osdn::apps::integer_from;
using osdn::apps::whole_number;
using osdn::generate::Sequence;

struct Arguments {
  osdn::generate::GenerateOptions generate;
  osdn::generate::PromptSource prompts;
  std::vector<std::string> stops;
  bool echo = false;
  bool json = false;
};

void add_prompt_options(CLI::App& app, Arguments& args) {
  app.add_option("--prompt", args.prompts.texts,
                 "a text to continue; repeated: several")
      ->allow_extra_args(false);
  app.add_option("--prompt-file", args.prompts.file,
                 "prompts from a .txt or .jsonl file, also .zst; without it "
                 "and --prompt, standard input is one prompt")
      ->check(osdn::apps::check_path);
  app.add_option("--split", args.prompts.split,
                 ".txt: what a prompt is: lines, file, blank-lines or "
                 "marker:STRING")
      ->needs("--prompt-file")
      ->capture_default_str();
  app.add_option("--field", args.prompts.field, ".jsonl: the key of the prompt")
      ->needs("--prompt-file")
      ->capture_default_str();
  app.add_option("--bos", args.generate.bos,
                 "begin token in front of a prompt: auto (as in training), 0 "
                 "or 1")
      ->capture_default_str();
}

void add_sampling_options(CLI::App& app, Arguments& args) {
  osdn::generate::GenerateOptions& g = args.generate;
  app.add_option("--max-new-tokens", g.max_new_tokens,
                 "tokens that a text may get; 0: read the prompts only")
      ->check(whole_number)
      ->capture_default_str();
  app.add_option("--temperature", g.temperature,
                 "0: greedy, always the likeliest token; default 0, and 1 with "
                 "--top-k, --top-p or --seed");
  app.add_option("--top-k", g.top_k, "draw from the K likeliest; 0: from all")
      ->check(whole_number);
  app.add_option("--top-p", g.top_p,
                 "draw from the likeliest that together have probability P");
  app.add_option("--repetition-penalty", g.repetition_penalty,
                 "above 1: ids that occurred already become less likely");
  app.add_option("--seed", g.seed, "of the draws; default 0")
      ->check(integer_from(0, std::numeric_limits<std::uint64_t>::max()));
  app.add_option("--stop", args.stops,
                 "end before this string; repeated: before any of them")
      ->allow_extra_args(false);
}

void add_options(CLI::App& app, Arguments& args) {
  osdn::generate::GenerateOptions& g = args.generate;
  app.add_option("--model", g.model, "run folder or checkpoint folder")
      ->check(osdn::apps::check_path);
  app.add_option("--tokenizer", g.tokenizer,
                 "SentencePiece model; else the one that the run names")
      ->check(osdn::apps::check_path);
  add_prompt_options(app, args);
  add_sampling_options(app, args);
  app.add_option("--save-state", g.save_state,
                 "write the state after the last token to this file")
      ->check(osdn::apps::check_path);
  app.add_option("--load-state", g.load_state,
                 "go on from a saved state; prompts, if any, come behind it")
      ->check(osdn::apps::check_path);
  app.add_flag("--echo", args.echo, "print each prompt before its text");
  app.add_flag("--json", args.json, "one JSON object a prompt, a line each");
  app.add_option("--batch", g.batch, "texts that are continued side by side")
      ->check(whole_number)
      ->capture_default_str();
  app.add_option("--prefill-tokens", g.prefill_tokens,
                 "prompt tokens of one pass; memory depends on it, not on the "
                 "prompt's length")
      ->check(whole_number)
      ->capture_default_str();
  app.add_option("--device", g.device, "auto, cpu or cuda")
      ->capture_default_str();
  app.add_option("--dtype", g.dtype,
                 "auto (default), fp32, fp64 (on a CPU) or bf16 (on a GPU)");
  app.add_option("--threads", g.threads, "threads; 0: all cores")
      ->check(whole_number)
      ->capture_default_str();
}

std::string standard_input() {
  if (::isatty(STDIN_FILENO) == 1) {
    osdn::log::info("reading the prompt from the terminal; Ctrl-D ends it");
  }
  return {std::istreambuf_iterator<char>(std::cin), {}};
}

/// Texts on standard output: one alone as it comes, several in the order of
/// their prompts, each when it and those before it are done.
class Printer {
 public:
  Printer(const Arguments& args, std::size_t count)
      : args_(args), lines_(count) {}

  void on_text(std::string_view text) {
    if (args_.json || lines_.size() > 1) return;
    start();
    std::cout << text << std::flush;
  }

  void on_finish(const Sequence& s) {
    const auto i = static_cast<std::size_t>(s.at.index);
    if (args_.json) {
      lines_[i] = json_of(s).dump() + "\n";
    } else if (lines_.size() > 1 && s.ids.empty() &&
               s.at.finish == osdn::generate::Finish::kInterrupted) {
      lines_[i] = "";  // its turn never came
    } else if (lines_.size() > 1) {
      lines_[i] = concat("--- ", i + 1, "/", lines_.size(), "\n", prompt(i),
                         s.text, "\n");
    } else {
      start();
      lines_[i] = "\n";
    }
    for (; next_ < lines_.size() && lines_[next_]; ++next_) {
      std::cout << *lines_[next_] << std::flush;
      lines_[next_]->clear();
    }
  }

 private:
  std::string prompt(std::size_t i) const {
    const auto& prompts = args_.generate.prompts;
    return args_.echo && i < prompts.size() ? prompts[i] : "";
  }

  void start() {
    if (!started_) std::cout << prompt(0);
    started_ = true;
  }

  nlohmann::ordered_json json_of(const Sequence& s) const {
    const auto& prompts = args_.generate.prompts;
    const auto i = static_cast<std::size_t>(s.at.index);
    return {{"index", i},
            {"prompt", i < prompts.size() ? nlohmann::ordered_json(prompts[i])
                                          : nlohmann::ordered_json()},
            {"text", s.text},
            {"tokens", s.ids},
            {"prompt_tokens", s.prompt_tokens},
            {"finish", name_of(*s.at.finish)}};
  }

  const Arguments& args_;
  std::vector<std::optional<std::string>> lines_;
  std::size_t next_ = 0;
  bool started_ = false;
};

std::string rate_line(const char* what, std::int64_t tokens, double seconds) {
  const double rate = seconds > 0 ? static_cast<double>(tokens) / seconds : 0.0;
  return concat(what, " ", tokens, " tokens in ",
                osdn::report::format_fixed(seconds, 2), " s, ",
                osdn::report::format_si(rate), " tokens/s");
}

void check_outputs(const Arguments& args) {
  std::vector<std::filesystem::path> inputs;
  if (args.generate.tokenizer) inputs.push_back(*args.generate.tokenizer);
  if (args.prompts.file) inputs.push_back(*args.prompts.file);
  osdn::apps::check_output("--save-state", args.generate.save_state, inputs);
}

ExitCode generate(Arguments& args) {
  osdn::generate::GenerateOptions& g = args.generate;
  check_options(g);
  check_outputs(args);
  if (!g.load_state || !args.prompts.texts.empty() || args.prompts.file) {
    g.prompts = read_prompts(args.prompts, standard_input);
  }
  // Nobody reads a text any more: only a state is still of use. And behind the
  // reading, which a signal is to end at once.
  const osdn::train::StopRequest stop;
  std::optional<Printer> printer;
  const auto print = [&]() -> Printer& { return *printer; };
  const osdn::generate::Figures figures = osdn::generate::generate(
      g,
      {[&](std::size_t count) { printer.emplace(args, count); },
       [&](const Sequence&, std::string_view text) { print().on_text(text); },
       [&](const Sequence& s) { print().on_finish(s); }},
      [&] { return stop.stop().has_value() || (!std::cout && !g.save_state); });
  if (const auto why = stop.stop()) osdn::log::info("stopped by ", *why);
  std::cerr << rate_line("prefill", figures.prefill_tokens,
                         figures.prefill_seconds)
            << "; "
            << rate_line("decode", figures.decode_tokens,
                         figures.decode_seconds)
            << '\n';
  return ExitCode::kOk;
}

ExitCode run(int argc, char** argv) {
  CLI::App app("Continues texts with a trained model.", "osdn-generate");
  app.set_version_flag("--version", osdn::version_line("osdn-generate"));
  Arguments args;
  add_options(app, args);
  if (const auto code = osdn::apps::parse(app, argc, argv)) {
    return *code;
  }
  if (!args.stops.empty()) args.generate.stops = args.stops;
  return generate(args);
}

}  // namespace

int main(int argc, char** argv) {
  osdn::restart_with_short_spin(argv);
  return osdn::run_main(argc, argv, run);
}
