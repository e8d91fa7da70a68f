#include "osdn/eval/model_runs.h"

#include <numeric>
#include <utility>

#include "osdn/core/error.h"

namespace osdn::eval {
namespace {

class MeasureRun : public BatchRun {
 public:
  MeasureRun(const ModelSession& session, const PreparedTask& task)
      : session_(session), task_(task) {
    for (std::size_t row = 0; row < task.batch.requests.size(); ++row) {
      if (row % task.measured_together == 0) packs_.emplace_back();
      packs_.back().push_back(row);
    }
  }

  const std::vector<Pack>& packs() const override { return packs_; }
  void answer(std::size_t pack, const AnswerDone& done,
              const WorkDone& work) override {
    task_.measure(session_, packs_[pack], [&](std::size_t row, Answer answer) {
      done(row, std::move(answer));
      work(1);
    });
  }

 private:
  const ModelSession& session_;
  const PreparedTask& task_;
  std::vector<Pack> packs_;
};

}  // namespace

std::unique_ptr<BatchRun> model_run(const ModelSession& session,
                                    const RequestBatch& batch) {
  switch (batch.kind) {
    case RequestKind::kLikelihood:
      return likelihood_run(session, batch);
    case RequestKind::kRolling:
      return rolling_run(session, batch);
    case RequestKind::kGeneration:
      return generation_run(session, batch);
    case RequestKind::kMeasure:
      break;
  }
  throw Error("a task answers batches of kMeasure itself");
}

std::unique_ptr<BatchRun> measure_run(const ModelSession& session,
                                      const PreparedTask& task) {
  return std::make_unique<MeasureRun>(session, task);
}

}  // namespace osdn::eval
