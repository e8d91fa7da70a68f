#include "osdn/eval/dummy_model.h"

#include <cmath>
#include <numeric>
#include <utility>

#include "osdn/core/hash.h"
#include "osdn/eval/python_text.h"

namespace osdn::eval {
namespace {

constexpr std::size_t kGenerated = 200;  // code points

Answer answer_of(const Request& request) {
  Sha256 hash;
  hash.update(request.context);
  hash.update("\x1F");
  hash.update(request.continuation);
  const auto digest = hash.digest();
  std::uint64_t first = 0;
  for (std::size_t i = 0; i < 8; ++i) first = first << 8 | digest[i];
  Answer answer;
  answer.log_likelihood = -std::ldexp(static_cast<double>(first >> 11), -53);
  answer.greedy = (digest.back() & 1) != 0;
  return answer;
}

class DummyRun : public BatchRun {
 public:
  explicit DummyRun(const RequestBatch& batch) : batch_(batch) {
    Pack all(batch.requests.size());
    std::iota(all.begin(), all.end(), std::size_t{0});
    if (!all.empty()) packs_.push_back(std::move(all));
  }
  const std::vector<Pack>& packs() const override { return packs_; }
  void answer(std::size_t pack, const AnswerDone& done,
              const WorkDone& work) override {
    for (const std::size_t row : packs_[pack]) {
      const Request& request = batch_.requests[row];
      Answer answer;
      if (batch_.kind == RequestKind::kGeneration) {
        answer.output = slice(request.context, 0, kGenerated);
      } else {
        answer = answer_of(request);
      }
      done(row, std::move(answer));
    }
    work(std::ssize(packs_[pack]));
  }

 private:
  const RequestBatch& batch_;
  std::vector<Pack> packs_;
};

}  // namespace

std::unique_ptr<BatchRun> DummyModel::begin(const RequestBatch& batch) {
  return std::make_unique<DummyRun>(batch);
}

}  // namespace osdn::eval
