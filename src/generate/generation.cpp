#include "osdn/generate/generation.h"

#include <numeric>
#include <utility>

#include "osdn/core/concat.h"
#include "osdn/core/error.h"
#include "osdn/core/utf8.h"
#include "osdn/generate/state_file.h"
#include "osdn/model/model_state.h"
#include "osdn/model/trained_model.h"
#include "osdn/ops/compute_choice.h"
#include "osdn/ops/threads.h"
#include "tokens_of_run.h"

namespace osdn::generate {
namespace {

namespace fs = std::filesystem;
using tokenizer::Tokenizer;

void check_at_least(const char* option, std::int64_t value,
                    std::int64_t least) {
  if (value >= least) return;
  throw Error(concat(option, " is ", value, "; expected ", least, " or more"),
              ExitCode::kUsage);
}

/// A saved state fixes the precision, not the device.
ops::ComputeChoice compute_of(const GenerateOptions& options,
                              const SavedState* saved) {
  return ops::choose_compute(
      options.device,
      options.dtype.value_or(saved ? saved->owner.dtype : "auto"),
      {"--device", "--dtype"});
}

/// A draw needs a temperature: one is set for options that only a draw has.
SamplingOptions sampling_of(const GenerateOptions& options,
                            SamplingOptions sampling) {
  if (options.repetition_penalty) {
    sampling.repetition_penalty = *options.repetition_penalty;
  }
  if (options.top_k) sampling.top_k = *options.top_k;
  if (options.top_p) sampling.top_p = *options.top_p;
  if (options.seed) sampling.seed = *options.seed;
  const bool draws = options.top_k || options.top_p || options.seed;
  if (options.temperature) {
    sampling.temperature = *options.temperature;
  } else if (draws && sampling.temperature == 0) {
    sampling.temperature = 1;
  }
  if (draws && sampling.temperature == 0) {
    throw Error(concat(options.top_k   ? "--top-k"
                       : options.top_p ? "--top-p"
                                       : "--seed",
                       " has no effect with --temperature 0 (greedy); leave "
                       "one of them out"),
                ExitCode::kUsage);
  }
  check_sampling(sampling);
  return sampling;
}

Tokenizer open_tokenizer(const GenerateOptions& options,
                         const config::Config& config, const TokensOfRun& run) {
  if (!options.tokenizer && config.data.tokenizer.empty()) {
    throw Error(
        "the run names no tokenizer (data.tokenizer); give one with "
        "--tokenizer",
        ExitCode::kUsage);
  }
  Tokenizer tokenizer(options.tokenizer.value_or(config.data.tokenizer));
  if (run.tokenizer && *run.tokenizer != tokenizer.hash()) {
    throw Error(concat("tokenizer ", tokenizer.path().string(), " has hash ",
                       to_hex(tokenizer.hash()),
                       ", but the model was trained "
                       "with ",
                       to_hex(*run.tokenizer), " (", run.named_by.string(),
                       "); use that one"),
                ExitCode::kBadInput);
  }
  tokenizer.check_fits(config.model.vocab_size);
  return tokenizer;
}

/// The id in front of a prompt: as in training, which without a shard to say
/// it is taken to have been osdn-data's own choice.
std::optional<std::int32_t> begin_id(const std::string& bos,
                                     const TokensOfRun& run,
                                     const Tokenizer& tokenizer) {
  if (bos == "0") return std::nullopt;
  if (bos == "1" && !tokenizer.bos_id()) {
    throw Error(concat("--bos is 1, but tokenizer ", tokenizer.path().string(),
                       " defines no begin token"),
                ExitCode::kBadInput);
  }
  return bos == "auto" && run.has_shard ? run.bos_id : tokenizer.bos_id();
}

/// Puts ids behind what a sequence has still to feed.
void append(Sequence& sequence, const std::vector<std::int32_t>& ids,
            std::size_t prompt) {
  if (ids.empty()) {
    throw Error(concat("prompt ", prompt + 1,
                       " gives no token with this tokenizer; give one with "
                       "more than white space"),
                ExitCode::kBadInput);
  }
  auto& feed = sequence.at.feed;
  feed.insert(feed.end(), ids.begin(), ids.end());
  add_seen(sequence.at.seen, ids);
  sequence.prompt_tokens = static_cast<std::int64_t>(ids.size());
  sequence.at.finish.reset();
}

std::vector<Sequence> new_sequences(const std::vector<std::string>& prompts,
                                    const Tokenizer& tokenizer,
                                    std::optional<std::int32_t> begin,
                                    const std::vector<std::string>& stops) {
  std::vector<Sequence> sequences;
  for (const std::string& prompt : prompts) {
    const std::size_t i = sequences.size();
    std::vector<std::int32_t> ids = tokenizer.encode(prompt);
    if (begin && !ids.empty()) ids.insert(ids.begin(), *begin);
    Sequence sequence{{}, TextStream(tokenizer, stops)};
    sequence.at.index = i;
    append(sequence, ids, i);
    sequences.push_back(std::move(sequence));
  }
  return sequences;
}

/// Which saved sequence each one of this run goes on from.
std::vector<std::size_t> origins(const SavedState& saved, std::size_t prompts,
                                 const fs::path& file) {
  const std::size_t count = saved.sequences.size();
  if (prompts > 0 && count == 1) return std::vector<std::size_t>(prompts, 0);
  if (prompts > 0 && prompts != count) {
    throw Error(concat(file.string(), " holds ", count,
                       " sequences and there "
                       "are ",
                       prompts, " prompts; give one for each, or none"),
                ExitCode::kUsage);
  }
  std::vector<std::size_t> all(count);
  std::iota(all.begin(), all.end(), std::size_t{0});
  return all;
}

bool has_ended(const SequenceState& s) {
  return s.finish == Finish::kEnd || s.finish == Finish::kStop;
}

void check_ids(const SequenceState& s, const Tokenizer& tokenizer,
               const fs::path& file) {
  for (const auto* ids : {&s.feed, &s.seen}) {
    for (const std::int32_t id : *ids) {
      if (id >= 0 && id < tokenizer.vocab_size()) continue;
      throw Error(
          concat(file.string(), ": id ", id, " is outside the vocabulary of ",
                 tokenizer.vocab_size()),
          ExitCode::kBadInput);
    }
  }
}

std::vector<Sequence> saved_sequences(const SavedState& saved,
                                      const GenerateOptions& options,
                                      const Tokenizer& tokenizer,
                                      const std::vector<std::string>& stops) {
  const fs::path& file = *options.load_state;
  const std::vector<std::string>& prompts = options.prompts;
  std::vector<Sequence> sequences;
  bool any_goes_on = false;
  for (const std::size_t from : origins(saved, prompts.size(), file)) {
    const std::size_t i = sequences.size();
    const SequenceState& at = saved.sequences[from];
    check_ids(at, tokenizer, file);
    Sequence sequence{at, TextStream(tokenizer, stops, at.pending)};
    sequence.at.index = i;
    if (!prompts.empty()) {
      // What was held back came before the prompt and is text now.
      sequence.text = sequence.stream.finish();
      sequence.stream = TextStream(tokenizer, stops);
      append(sequence, tokenizer.encode(prompts[i]), i);
    } else if (!has_ended(at)) {
      sequence.at.finish.reset();
    }
    any_goes_on = any_goes_on || !sequence.at.finish;
    sequences.push_back(std::move(sequence));
  }
  if (!any_goes_on) {
    throw Error(concat("all sequences of ", file.string(),
                       " have ended; give a --prompt to go on"),
                ExitCode::kUsage);
  }
  return sequences;
}

/// What needs no pass through the model: text that was held back before a
/// prompt, and sequences that have ended.
void tell_what_is_there(const std::vector<Sequence>& sequences,
                        const Listener& listener) {
  for (const Sequence& s : sequences) {
    if (!s.text.empty() && listener.on_text) listener.on_text(s, s.text);
    if (s.at.finish && listener.on_finish) listener.on_finish(s);
  }
}

}  // namespace

void check_options(const GenerateOptions& options) {
  if (options.model.empty()) {
    throw Error("--model is missing: a run folder or checkpoint folder",
                ExitCode::kUsage);
  }
  sampling_of(options, {});
  for (const std::string& stop :
       options.stops.value_or(std::vector<std::string>{})) {
    if (first_invalid_utf8(stop)) {
      throw Error("a --stop string is not UTF-8", ExitCode::kUsage);
    }
  }
  StopStrings(options.stops.value_or(std::vector<std::string>{}));
  check_at_least("--max-new-tokens", options.max_new_tokens, 0);
  check_at_least("--batch", options.batch, 1);
  check_at_least("--prefill-tokens", options.prefill_tokens, 1);
  ops::check_threads("--threads", options.threads);
  compute_of(options, nullptr);
  if (options.bos != "auto" && options.bos != "0" && options.bos != "1") {
    throw Error(concat("--bos is '", options.bos, "'; expected auto, 0 or 1"),
                ExitCode::kUsage);
  }
  if (options.load_state && options.bos != "auto") {
    throw Error("--bos has no effect with --load-state, whose text has begun",
                ExitCode::kUsage);
  }
}

Figures generate(const GenerateOptions& options, const Listener& listener,
                 const std::function<bool()>& stop) {
  check_options(options);
  std::optional<SavedState> saved;
  if (options.load_state) saved = load_state(*options.load_state);
  const model::TrainedFolder folder = model::open_trained_folder(options.model);
  const TokensOfRun run_tokens = tokens_of_run(folder.config.data);
  const Tokenizer tokenizer =
      open_tokenizer(options, folder.config, run_tokens);
  const ops::ComputeChoice compute =
      compute_of(options, saved ? &*saved : nullptr);
  const StateOwner owner{folder.folder.string(), folder.config_hash,
                         folder.weights_hash, tokenizer.sha256(),
                         compute.dtype_name};
  if (saved) check_owner(saved->owner, owner, *options.load_state);

  const SamplingOptions sampling =
      sampling_of(options, saved ? saved->sampling : SamplingOptions());
  const std::vector<std::string> stops =
      options.stops.value_or(saved ? saved->stops : std::vector<std::string>{});
  std::vector<Sequence> sequences =
      saved
          ? saved_sequences(*saved, options, tokenizer, stops)
          : new_sequences(options.prompts, tokenizer,
                          begin_id(options.bos, run_tokens, tokenizer), stops);
  saved.reset();

  ops::set_threads(options.threads);
  const model::LanguageModel model =
      model::load_model(folder, compute.dtype, compute.device);
  for (Sequence& s : sequences) {
    s.at.state = model::on_device(std::move(s.at.state), model.device());
  }
  if (listener.on_start) listener.on_start(sequences.size());
  tell_what_is_there(sequences, listener);
  const Figures figures =
      run(model,
          {sampling, options.max_new_tokens, options.batch,
           options.prefill_tokens, end_ids(tokenizer), tokenizer.vocab_size(),
           options.save_state.has_value()},
          sequences, listener, stop);
  if (options.save_state) {
    SavedState state{owner, sampling, stops, {}};
    for (Sequence& s : sequences) {
      state.sequences.push_back(std::move(s.at));
    }
    save_state(*options.save_state, state);
  }
  return figures;
}

}  // namespace osdn::generate
