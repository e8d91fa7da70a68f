// osdn-data: text to token shards, tokenizers, a look at both, and generated
// recall tasks.

#include <CLI/CLI.hpp>
#include <iostream>

#include "command_line.h"
#include "osdn/core/hash.h"
#include "osdn/core/run_main.h"
#include "osdn/core/version.h"
#include "osdn/data/inspect.h"
#include "osdn/data/pack_ids.h"
#include "osdn/data/text_reader.h"
#include "osdn/data/tokenize_pipeline.h"
#include "osdn/data/train_tokenizer.h"
#include "osdn/report/format.h"
#include "osdn/synth/synthesize.h"

namespace {

using osdn::ExitCode;
using Paths = std::vector<std::filesystem::path>;

// Options of every subcommand that reads text.
void add_text_options(CLI::App& command, Paths& inputs,
                      osdn::data::TextOptions& text) {
  command
      .add_option("inputs", inputs,
                  ".txt, .jsonl, .txt.zst or .jsonl.zst files, or folders of "
                  "such")
      ->required()
      ->check(osdn::apps::check_path);
  command.add_option("--field", text.field, ".jsonl: the key of the text")
      ->capture_default_str();
  command
      .add_option_function<std::string>(
          "--split",
          [&text](const std::string& spelling) {
            osdn::data::set_split(text, spelling);
          },
          ".txt: what a document is: file, lines, blank-lines or "
          "marker:STRING")
      ->default_str("file");
  command
      .add_option("--max-document-bytes", text.max_document_bytes,
                  "a longer document is an error")
      ->check(osdn::apps::integer_from(1))
      ->capture_default_str();
}

void add_id_option(CLI::App& command, const std::string& name,
                   osdn::data::AddId& choice, const std::string& help) {
  command
      .add_option_function<std::string>(
          name,
          [&choice](const std::string& value) {
            choice = osdn::data::add_id_from_name(value);
          },
          help)
      ->default_str("auto");
}

void add_tokenize(CLI::App& app, osdn::data::TokenizeOptions& options) {
  CLI::App& command =
      *app.add_subcommand("tokenize", "Turn text files into token shards");
  add_text_options(command, options.inputs, options.text);
  command
      .add_option("--tokenizer", options.tokenizer, "SentencePiece model file")
      ->required()
      ->check(osdn::apps::check_path);
  command
      .add_option("--output", options.output,
                  "folder of the shards; appears when all is done")
      ->required()
      ->check(osdn::apps::check_path);
  add_id_option(command, "--bos", options.bos,
                "BOS before each document: on, off, auto (when defined)");
  add_id_option(command, "--eos", options.eos,
                "EOS after each document: on, off, auto (when there is no "
                "BOS)");
  command
      .add_option("--shard-tokens", options.shard_tokens,
                  "most tokens of one shard")
      ->check(osdn::apps::integer_from(1))
      ->capture_default_str();
  command.add_option("--threads", options.threads, "threads; 0: all cores")
      ->capture_default_str();
  command.add_flag("--overwrite", options.overwrite,
                   "replace shards that are there already");
  command.callback([&options] {
    const osdn::data::TokenizeResult result = osdn::data::tokenize(options);
    const auto rate = [&](std::uint64_t count) {
      return osdn::report::format_si(static_cast<double>(count) /
                                     result.seconds);
    };
    std::cout << options.output.string() << ": " << result.tokens
              << " tokens of " << result.documents << " documents in "
              << result.shards << " shards, " << result.empty_documents
              << " empty documents left out; " << rate(result.text_bytes)
              << "B of text/s, " << rate(result.tokens) << " tokens/s\n";
  });
}

void add_train_tokenizer(CLI::App& app,
                         osdn::data::TrainTokenizerOptions& options) {
  CLI::App& command = *app.add_subcommand(
      "train-tokenizer", "Learn a SentencePiece model from text files");
  add_text_options(command, options.inputs, options.text);
  command.add_option("--output", options.output, "the .model file to write")
      ->required()
      ->check(osdn::apps::check_path);
  command
      .add_option_function<std::string>(
          "--algorithm",
          [&options](const std::string& name) {
            options.train.algorithm =
                osdn::tokenizer::algorithm_from_name(name);
          },
          "unigram or bpe")
      ->default_str("unigram");
  osdn::tokenizer::TrainOptions& train = options.train;
  command.add_option("--vocab-size", train.vocab_size, "pieces in all")
      ->capture_default_str();
  command
      .add_option("--character-coverage", train.character_coverage,
                  "share of the characters with a piece of their own")
      ->capture_default_str();
  command
      .add_flag("--byte-fallback,!--no-byte-fallback", train.byte_fallback,
                "spell rare characters in bytes")
      ->capture_default_str();
  command
      .add_flag("--split-digits,!--no-split-digits", train.split_digits,
                "no piece holds two digits")
      ->capture_default_str();
  command
      .add_option("--max-piece-length", train.max_piece_length,
                  "code points of the longest piece")
      ->capture_default_str();
  command
      .add_option("--max-sentences", train.sample.max_sentences,
                  "sentences sampled from the text; 0: all")
      ->capture_default_str();
  command
      .add_option("--max-sentence-bytes", train.sample.max_sentence_bytes,
                  "longer lines are cut")
      ->capture_default_str();
  command.add_option("--seed", train.sample.seed, "of the sample")
      ->check(osdn::apps::integer_from(0))
      ->capture_default_str();
  command.add_flag("--overwrite", options.overwrite, "replace the output");
  command.callback([&options] {
    const auto tokenizer = osdn::data::train_tokenizer(options);
    std::cout << options.output.string() << ": " << tokenizer.vocab_size()
              << " pieces, sha256 " << tokenizer.sha256() << "\n";
  });
}

struct LookOptions {
  Paths inputs;
  std::filesystem::path tokenizer;
  std::uint64_t documents = 3;
  std::uint64_t document_tokens = 100;
};

void add_look_options(CLI::App& command, LookOptions& options) {
  command.add_option("inputs", options.inputs, "shards, or folders of shards")
      ->required()
      ->check(osdn::apps::check_path);
  command
      .add_option("--tokenizer", options.tokenizer,
                  "the SentencePiece model that the shards must have been "
                  "made with")
      ->check(osdn::apps::check_path);
}

osdn::data::ExpectedData expected(
    const std::optional<osdn::tokenizer::Tokenizer>& tokenizer) {
  osdn::data::ExpectedData data;
  if (tokenizer) {
    data.tokenizer_hash = tokenizer->hash();
  }
  return data;
}

std::optional<osdn::tokenizer::Tokenizer> load_tokenizer(
    const LookOptions& options) {
  std::optional<osdn::tokenizer::Tokenizer> tokenizer;
  if (!options.tokenizer.empty()) {
    tokenizer.emplace(options.tokenizer);
  }
  return tokenizer;
}

void add_inspect(CLI::App& app, LookOptions& options) {
  CLI::App& command = *app.add_subcommand(
      "inspect", "Print headers, document lengths and the first documents");
  add_look_options(command, options);
  command
      .add_option("--documents", options.documents,
                  "documents to decode, given a tokenizer")
      ->check(osdn::apps::integer_from(0))
      ->capture_default_str();
  command
      .add_option("--document-tokens", options.document_tokens,
                  "tokens of each to decode")
      ->check(osdn::apps::integer_from(0))
      ->capture_default_str();
  command.callback([&options] {
    const auto tokenizer = load_tokenizer(options);
    const osdn::data::TokenDataset dataset(options.inputs, expected(tokenizer));
    std::cout << osdn::data::describe(dataset);
    if (tokenizer) {
      std::cout << osdn::data::first_documents(
          dataset, *tokenizer, options.documents, options.document_tokens);
    }
  });
}

void add_verify(CLI::App& app, LookOptions& options) {
  CLI::App& command = *app.add_subcommand(
      "verify", "Check every byte of shards; exit code 3 on a fault");
  add_look_options(command, options);
  command.callback([&options] {
    osdn::data::verify(
        options.inputs, expected(load_tokenizer(options)),
        [](const std::string& line) { std::cout << line << std::endl; });
  });
}

void add_pack_ids(CLI::App& app, osdn::data::PackIdsOptions& options) {
  CLI::App& command = *app.add_subcommand(
      "pack-ids", "Turn .jsonl files of token ids and labels into shards");
  command
      .add_option("inputs", options.inputs,
                  ".jsonl files, also .zst, or folders of such: \"tokens\", "
                  "and \"labels\" where the next token is none")
      ->required()
      ->check(osdn::apps::check_path);
  command.add_option("--vocab-size", options.vocab_size, "ids are below it")
      ->required();
  command
      .add_option("--output", options.output,
                  "folder of the shards; appears when all is done")
      ->required()
      ->check(osdn::apps::check_path);
  command
      .add_option("--shard-tokens", options.shard_tokens,
                  "most tokens of one shard")
      ->check(osdn::apps::integer_from(1))
      ->capture_default_str();
  command.add_flag("--overwrite", options.overwrite,
                   "replace shards that are there already");
  command.callback([&options] {
    const osdn::data::PackIdsResult result = osdn::data::pack_ids(options);
    std::cout << options.output.string() << ": " << result.tokens
              << " tokens of " << result.documents << " documents in "
              << result.shards << " shards, " << result.labels
              << " labels of their own\n";
  });
}

void add_mqar_options(CLI::App& command, osdn::synth::MqarOptions& mqar) {
  command.add_option("--vocab-size", mqar.vocab_size, "mqar: ids")
      ->check(osdn::apps::whole_number)
      ->capture_default_str();
  command.add_option("--length", mqar.length, "mqar: L, even")
      ->check(osdn::apps::whole_number)
      ->capture_default_str();
  command.add_option("--pairs", mqar.pairs, "mqar: keys with a value")
      ->check(osdn::apps::whole_number)
      ->capture_default_str();
  command
      .add_option("--power", mqar.power,
                  "mqar: of the distances, 0 to 1; the larger, the longer")
      ->capture_default_str();
  command.add_option("--passes", mqar.passes, "mqar: how often keys are shown")
      ->check(osdn::apps::whole_number)
      ->capture_default_str();
  command
      .add_flag("--random-non-queries,!--zero-non-queries",
                mqar.random_non_queries,
                "mqar: what stands between the queries")
      ->capture_default_str();
}

void add_record_options(CLI::App& command,
                        osdn::synth::RecordOptions& records) {
  command
      .add_option_function<std::string>(
          "--mode",
          [&records](const std::string& name) {
            records.mode = osdn::synth::record_mode_from_name(name);
          },
          "records: unique, same, update or scoped")
      ->default_str("unique");
  command.add_option("--tokens", records.tokens, "records: most of a document")
      ->check(osdn::apps::whole_number)
      ->capture_default_str();
  command
      .add_option("--records", records.records,
                  "records: lines of a document, whatever its tokens")
      ->check(osdn::apps::whole_number);
  command
      .add_option("--repeat", records.repeat,
                  "records: pages of the queried name in same and update")
      ->check(osdn::apps::whole_number)
      ->capture_default_str();
}

void add_synth(CLI::App& app, osdn::synth::SynthOptions& options) {
  CLI::App& command = *app.add_subcommand(
      "synth", "Generate recall tasks: mqar, niah_*, records");
  std::string tasks;
  for (const std::string& task : osdn::synth::synth_tasks()) {
    tasks += (tasks.empty() ? "" : ", ") + task;
  }
  command.add_option("task", options.task, tasks)->required();
  command.add_option("--output", options.output, "the .jsonl file to write")
      ->required()
      ->check(osdn::apps::check_path);
  command.add_option("-n", options.documents, "documents")
      ->check(osdn::apps::whole_number)
      ->capture_default_str();
  command.add_option("--seed", options.seed, "of all draws")
      ->check(osdn::apps::integer_from(0))
      ->capture_default_str();
  command
      .add_option("--split", options.split,
                  "half of the words: train, test or all")
      ->capture_default_str();
  command
      .add_option("--words", options.words,
                  "folder with nounlist.txt and adjectivelist.txt; else "
                  "built-in words")
      ->check(osdn::apps::check_path);
  command
      .add_option("--haystack", options.haystack,
                  "niah: text to hide needles in; else generated sentences")
      ->check(osdn::apps::check_path);
  command
      .add_option("--tokenizer", options.tokenizer,
                  "SentencePiece model that counts tokens (niah, records)")
      ->check(osdn::apps::check_path);
  command
      .add_option("--target-tokens", options.target_tokens,
                  "niah: most tokens of prompt and answer")
      ->check(osdn::apps::whole_number)
      ->capture_default_str();
  add_record_options(command, options.records);
  add_mqar_options(command, options.mqar);
  command.add_option("--threads", options.threads, "threads; 0: all cores")
      ->capture_default_str();
  command.add_flag("--overwrite", options.overwrite, "replace the output");
  command.callback([&options, &command] {
    options.given = osdn::apps::given_options(command);
    osdn::synth::synthesize(options);
    std::cout << options.output.string() << ": " << options.documents
              << " documents, sha256 " << osdn::sha256_of_file(options.output)
              << "\n";
  });
}

ExitCode run(int argc, char** argv) {
  CLI::App app("Prepare data for osdn: text to token shards");
  app.set_version_flag("--version", osdn::version_line("osdn-data"));
  app.require_subcommand(1);
  osdn::data::TokenizeOptions tokenize;
  osdn::data::TrainTokenizerOptions train_tokenizer;
  osdn::data::PackIdsOptions pack_ids;
  LookOptions inspect;
  LookOptions verify;
  osdn::synth::SynthOptions synth;
  add_tokenize(app, tokenize);
  add_train_tokenizer(app, train_tokenizer);
  add_pack_ids(app, pack_ids);
  add_inspect(app, inspect);
  add_verify(app, verify);
  add_synth(app, synth);
  return osdn::apps::parse(app, argc, argv).value_or(ExitCode::kOk);
}

}  // namespace

int main(int argc, char** argv) {
  return osdn::run_main(argc, argv, run);
}
