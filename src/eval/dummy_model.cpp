#include "osdn/eval/dummy_model.h"

#include <cmath>
#include <numeric>
#include <utility>

#include "osdn/eval/python_text.h"

namespace osdn::eval {
namespace {

constexpr std::size_t kGenerated = 200;  // code points

}  // namespace

Answer dummy_answer(Sha256 context, std::string_view continuation) {
  context.update("\x1F");
  context.update(continuation);
  const auto digest = context.digest();
  std::uint64_t first = 0;
  for (std::size_t i = 0; i < 8; ++i) first = first << 8 | digest[i];
  Answer answer;
  answer.log_likelihood = -std::ldexp(static_cast<double>(first >> 11), -53);
  answer.greedy = (digest.back() & 1) != 0;
  return answer;
}

namespace {

using AnswerOf = std::function<Answer(std::size_t row)>;

class DummyRun : public BatchRun {
 public:
  DummyRun(std::size_t rows, AnswerOf answer) : answer_(std::move(answer)) {
    Pack all(rows);
    std::iota(all.begin(), all.end(), std::size_t{0});
    if (!all.empty()) packs_.push_back(std::move(all));
  }
  const std::vector<Pack>& packs() const override { return packs_; }
  void answer(std::size_t pack, const AnswerDone& done,
              const WorkDone& work) override {
    for (const std::size_t row : packs_[pack]) {
      done(row, answer_(row));
    }
    work(std::ssize(packs_[pack]));
  }

 private:
  AnswerOf answer_;
  std::vector<Pack> packs_;
};

}  // namespace

std::unique_ptr<BatchRun> DummyModel::begin(const RequestBatch& batch) {
  const bool generates = batch.kind == RequestKind::kGeneration;
  return begin(batch.requests.size(), [&batch, generates](std::size_t row) {
    const Request& request = batch.requests[row];
    Answer answer;
    if (generates) {
      answer.output = slice(request.context, 0, kGenerated);
      return answer;
    }
    Sha256 context;
    context.update(request.context);
    return dummy_answer(std::move(context), request.continuation);
  });
}

std::unique_ptr<BatchRun> DummyModel::begin(std::size_t rows,
                                            AnswerOf answer) const {
  return std::make_unique<DummyRun>(rows, std::move(answer));
}

}  // namespace osdn::eval
