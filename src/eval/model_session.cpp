#include "osdn/eval/model_session.h"

namespace osdn::eval {

ObserverScope::ObserverScope(const ModelSession& session,
                             layers::AttentionObserver& observer)
    : model_(session.trained.model) {
  model_.observe(&observer);
}

ObserverScope::~ObserverScope() {
  model_.observe(nullptr);
}

}  // namespace osdn::eval
