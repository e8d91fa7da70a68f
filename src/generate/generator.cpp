#include "osdn/generate/generator.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/tensor.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <utility>

#include "osdn/model/decoder.h"
#include "osdn/model/model_state.h"
#include "osdn/ops/chunk_length.h"
#include "osdn/ops/to_device.h"

namespace osdn::generate {
namespace {

using Clock = std::chrono::steady_clock;

/// Adds the time that it lives to `seconds`.
class Timer {
 public:
  explicit Timer(double& seconds) : seconds_(seconds), start_(Clock::now()) {}
  ~Timer() {
    seconds_ += std::chrono::duration<double>(Clock::now() - start_).count();
  }
  Timer(const Timer&) = delete;
  Timer& operator=(const Timer&) = delete;

 private:
  double& seconds_;
  Clock::time_point start_;
};

/// Ids before the last one.
std::int64_t prefill_left(const Sequence& s) {
  return static_cast<std::int64_t>(s.at.feed.size()) - 1;
}

bool at_start(const Sequence& s) {
  return s.at.state.layers.empty();
}

class Run {
 public:
  Run(const model::LanguageModel& model, const GeneratorOptions& options,
      const Listener& listener, const std::function<bool()>& stop)
      : model_(model), options_(options), listener_(listener), stop_(stop) {}

  Figures go(std::vector<Sequence>& sequences) {
    const at::NoGradGuard no_grad;
    for (Sequence& s : sequences) {
      if (!s.at.finish) waiting_.push_back(&s);
    }
    while (!stop_()) {
      admit();
      if (batch_.empty() && waiting_.empty()) break;
      if (!batch_.empty() && !stop_()) decode();
    }
    interrupt();
    return figures_;
  }

 private:
  /// Fills the batch from the waiting sequences, their prompts run.
  void admit() {
    const auto room = options_.batch - static_cast<std::int64_t>(batch_.size());
    const auto count = std::min<std::int64_t>(
        room, static_cast<std::int64_t>(waiting_.size()));
    if (count <= 0) return;
    const std::vector<Sequence*> fresh(waiting_.begin(),
                                       waiting_.begin() + count);
    if (!prefill(fresh)) return;
    waiting_.erase(waiting_.begin(), waiting_.begin() + count);
    std::vector<model::ModelState> states;
    if (decoder_) states.push_back(decoder_->state());
    for (Sequence* s : fresh) {
      if (options_.max_new_tokens == 0) {
        finish(*s, Finish::kLength);
        continue;
      }
      batch_.push_back(s);
      states.push_back(std::exchange(s->at.state, {}));
    }
    decode_from(model::join_documents(states));
  }

  /// The state of the batch's sequences, in order.
  void decode_from(model::ModelState state) {
    decoder_.reset();
    if (!batch_.empty()) {
      decoder_ = std::make_unique<model::Decoder>(model_, std::move(state));
    }
  }

  /// False when it was stopped before the end.
  bool prefill(const std::vector<Sequence*>& fresh) {
    const Timer timer(figures_.prefill_seconds);
    for (;;) {
      std::vector<Sequence*> left;
      for (Sequence* s : fresh) {
        if (at_start(*s) || prefill_left(*s) > 0) left.push_back(s);
      }
      if (left.empty()) return true;
      if (stop_()) return false;
      prefill_pass(left);
    }
  }

  /// As many sequences as one pass takes, or the next piece of a long one.
  /// Those at their start have no state that could be joined to others'.
  void prefill_pass(const std::vector<Sequence*>& left) {
    std::vector<Sequence*> pack;
    std::vector<std::int64_t> cu_seqlens{0};
    std::vector<std::int64_t> tokens;
    for (Sequence* s : left) {
      if (at_start(*s) != at_start(*left.front())) continue;
      const std::int64_t room = options_.prefill_tokens - cu_seqlens.back();
      const std::int64_t count = prefill_left(*s);
      if (!pack.empty() && count > room) break;
      const std::int64_t piece =
          count <= room ? count : std::min(count, ops::whole_chunks(room));
      tokens.insert(tokens.end(), s->at.feed.begin(),
                    s->at.feed.begin() + piece);
      cu_seqlens.push_back(cu_seqlens.back() + piece);
      pack.push_back(s);
    }
    std::vector<model::ModelState> states;
    for (Sequence* s : pack) states.push_back(std::move(s->at.state));
    model::ModelState state = model::join_documents(states);
    model_.hidden(on_device(tokens), ops::Documents(cu_seqlens), &state);
    for (std::size_t n = 0; n < pack.size(); ++n) {
      const std::int64_t piece = cu_seqlens[n + 1] - cu_seqlens[n];
      SequenceState& at = pack[n]->at;
      at.state = pack.size() == 1 ? state
                                  : model::select_documents(
                                        state, {static_cast<std::int64_t>(n)});
      at.fed += piece;
      at.feed.erase(at.feed.begin(), at.feed.begin() + piece);
    }
    figures_.prefill_tokens += cu_seqlens.back();
  }

  /// One token of every sequence in the batch.
  void decode() {
    const Timer timer(figures_.decode_seconds);
    std::vector<std::int64_t> tokens;
    for (const Sequence* s : batch_) tokens.push_back(s->at.feed.front());
    const at::Tensor logits = decoder_->logits(on_device(tokens))
                                  .narrow(1, 0, options_.usable_ids)
                                  .to(at::kCPU, at::kDouble)
                                  .contiguous();
    for (std::size_t n = 0; n < batch_.size(); ++n) {
      const double* row = logits.data_ptr<double>() +
                          static_cast<std::int64_t>(n) * options_.usable_ids;
      take(*batch_[n], {row, row + options_.usable_ids});
    }
    figures_.decode_tokens += static_cast<std::int64_t>(batch_.size());
    leave();
  }

  /// The sequence's next token and what it means.
  void take(Sequence& s, std::vector<double> logits) {
    SequenceState& at = s.at;
    const std::int32_t id =
        next_token(std::move(logits), at.seen, options_.sampling, at.index,
                   static_cast<std::uint64_t>(at.drawn));
    at.fed += 1;
    at.drawn += 1;
    at.feed = {id};
    add_seen(at.seen, at.feed);
    s.ids.push_back(id);
    const auto& ends = options_.end_ids;
    if (std::find(ends.begin(), ends.end(), id) != ends.end()) {
      at.finish = Finish::kEnd;
      return;
    }
    give(s, s.stream.push(id));
    if (s.stream.stopped()) {
      at.finish = Finish::kStop;
    } else if (static_cast<std::int64_t>(s.ids.size()) >=
               options_.max_new_tokens) {
      at.finish = Finish::kLength;
    }
  }

  /// Takes the sequences that have finished out of the batch.
  void leave() {
    std::vector<Sequence*> stay;
    std::vector<std::int64_t> rows;
    for (std::size_t n = 0; n < batch_.size(); ++n) {
      const auto row = static_cast<std::int64_t>(n);
      Sequence& s = *batch_[n];
      if (!s.at.finish) {
        stay.push_back(&s);
        rows.push_back(row);
        continue;
      }
      if (options_.keep_states) {
        s.at.state = model::select_documents(decoder_->state(), {row});
      }
      finish(s, *s.at.finish);
    }
    if (stay.size() == batch_.size()) return;
    batch_ = std::move(stay);
    decode_from(batch_.empty()
                    ? model::ModelState()
                    : model::select_documents(decoder_->state(), rows));
  }

  void finish(Sequence& s, Finish why) {
    s.at.finish = why;
    // Text that is held back may still turn out to be a stop string, if the
    // sequence goes on later.
    const bool goes_on = why == Finish::kLength || why == Finish::kInterrupted;
    if (!(options_.keep_states && goes_on)) give(s, s.stream.finish());
    s.at.pending = s.stream.pending();
    if (!options_.keep_states) s.at.state = {};
    if (listener_.on_finish) listener_.on_finish(s);
  }

  void interrupt() {
    for (std::size_t n = 0; n < batch_.size(); ++n) {
      batch_[n]->at.state = model::select_documents(
          decoder_->state(), {static_cast<std::int64_t>(n)});
      finish(*batch_[n], Finish::kInterrupted);
    }
    for (Sequence* s : waiting_) finish(*s, Finish::kInterrupted);
  }

  void give(Sequence& s, const std::string& text) {
    if (text.empty()) return;
    s.text += text;
    if (listener_.on_text) listener_.on_text(s, text);
  }

  at::Tensor on_device(const std::vector<std::int64_t>& tokens) const {
    return ops::to_device(
        at::tensor(at::ArrayRef<std::int64_t>(tokens), at::kLong),
        model_.device());
  }

  const model::LanguageModel& model_;
  const GeneratorOptions& options_;
  const Listener& listener_;
  const std::function<bool()>& stop_;
  std::vector<Sequence*> waiting_;
  std::vector<Sequence*> batch_;
  std::unique_ptr<model::Decoder> decoder_;  // of the batch, where there is one
  Figures figures_;
};

}  // namespace

std::vector<std::int32_t> end_ids(const tokenizer::Tokenizer& tokenizer) {
  std::vector<std::int32_t> ids;
  if (tokenizer.eos_id()) ids.push_back(*tokenizer.eos_id());
  if (tokenizer.bos_id()) ids.push_back(*tokenizer.bos_id());
  return ids;
}

Figures run(const model::LanguageModel& model, const GeneratorOptions& options,
            std::vector<Sequence>& sequences, const Listener& listener,
            const std::function<bool()>& stop) {
  return Run(model, options, listener, stop).go(sequences);
}

}  // namespace osdn::generate
