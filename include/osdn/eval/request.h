#pragma once
// What a task asks of a model, and what it gets back. Every task is asked in
// rows that stand for themselves: they can be hashed without a model, run in
// any order, split over ranks, logged one by one and taken up again.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace osdn::eval {

enum class RequestKind {
  kLikelihood,  ///< log p(continuation | context)
  kRolling,     ///< log p of a whole document; the context is empty
  kGeneration,  ///< greedy text behind a prompt; the continuation is empty
  kMeasure,     ///< answered by the task itself (PreparedTask::measure)
};

struct Request {
  std::string context{};       ///< or the prompt
  std::string continuation{};  ///< or the rolling document
  std::string place{};         ///< where it comes from: "piqa.jsonl:17"
  std::string label{};  ///< the right answer, for --samples; may be empty
  /// Rows of one document are neighbours, and may share the run through what
  /// they have in common at their beginning.
  std::int64_t document = 0;
};

struct Answer {
  double log_likelihood = 0;  ///< natural log, summed over the scored tokens
  bool greedy = false;        ///< every scored token is the most probable one
  std::int64_t tokens = 0;    ///< scored or generated
  bool truncated = false;     ///< the row was longer than max_len
  bool empty_continuation = false;  ///< eval.md 1, step 3
  /// Generation: the text, cut by the rule. Measures: what `score` reads.
  std::string output{};
  bool operator==(const Answer&) const = default;
};

enum class Truncation {
  kLeft,    ///< keeps the prompt's last tokens
  kRight,   ///< keeps its first ones
  kMiddle,  ///< keeps both ends: decoded apart, joined, encoded again
};

/// How all prompts of a task are continued: greedily, up to an end token.
struct GenerationRule {
  std::int64_t max_new_tokens = 0;
  /// The output ends before the first of these that occurs in it ...
  std::vector<std::string> stops{};
  /// ... from this many generated tokens on.
  std::int64_t tokens_before_stop = 0;
  Truncation truncation = Truncation::kLeft;
  /// Most tokens of a prompt, BOS included; absent: max_len - max_new_tokens.
  /// With neither a prompt is never cut.
  std::optional<std::int64_t> prompt_tokens{};
};

/// Rows of one task and what holds for all of them.
struct RequestBatch {
  RequestKind kind = RequestKind::kLikelihood;
  std::vector<Request> requests{};
  GenerationRule generation{};
  /// A begin token in front of the input, one that is there not doubled.
  /// Rolling: beside the prefix token. --bos overrides what the protocol says.
  bool bos = false;
};

/// Called once for each row, in any order, as soon as its answer is known.
using AnswerDone = std::function<void(std::size_t row, Answer answer)>;

/// Rows that run together.
using Pack = std::vector<std::size_t>;

/// Called with the work done since the last call, in the run's unit.
using WorkDone = std::function<void(std::int64_t work)>;

/// One batch on its way through a model. An answer depends on its request
/// alone, not on the other rows or their order.
class BatchRun {
 public:
  virtual ~BatchRun() = default;
  /// Every row of the batch in one of the packs. A function of the batch and
  /// the options alone: packs are what is dealt to ranks and what an
  /// interrupted call takes up again, so neither changes a bit of an answer.
  virtual const std::vector<Pack>& packs() const = 0;
  /// `pack` is an index into packs().
  virtual void answer(std::size_t pack, const AnswerDone& done,
                      const WorkDone& work) = 0;
  /// What work is counted in, and how much of it a row is.
  virtual std::string unit() const { return " rows"; }
  virtual std::int64_t work_of(std::size_t /*row*/) const { return 1; }
};

/// Answers requests: a model, or the dummy.
class Responder {
 public:
  virtual ~Responder() = default;
  /// The batch (not of kMeasure) has to outlive the run.
  virtual std::unique_ptr<BatchRun> begin(const RequestBatch& batch) = 0;
};

}  // namespace osdn::eval
