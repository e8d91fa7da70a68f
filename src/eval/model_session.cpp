#include "osdn/eval/model_session.h"

#include "osdn/core/error.h"

namespace osdn::eval {

const tokenizer::Tokenizer& ModelSession::need_tokenizer() const {
  if (tokenizer) return *tokenizer;
  throw Error("this task reads text; give a tokenizer with --tokenizer",
              ExitCode::kUsage);
}

ObserverScope::ObserverScope(const ModelSession& session,
                             layers::AttentionObserver& observer)
    : model_(session.trained.model) {
  model_.observe(&observer);
}

ObserverScope::~ObserverScope() {
  model_.observe(nullptr);
}

}  // namespace osdn::eval
