#pragma once
// Multiple-choice requests in tiny_text's alphabet, and a model's answers to
// them packed and one by one.

#include <cstdint>
#include <string>
#include <vector>

#include "eval/prepared_task.h"
#include "osdn/core/concat.h"
#include "osdn/core/random.h"
#include "osdn/eval/model_runs.h"

namespace osdn::test {

/// A word of tiny_text's alphabet.
inline std::string word(Xoshiro256& random) {
  std::string text;
  for (std::uint64_t i = 0; i <= random.below(5); ++i) {
    text += static_cast<char>('a' + random.below(8));
  }
  return text;
}

inline std::string words(Xoshiro256& random, std::uint64_t count) {
  std::string text = word(random);
  for (std::uint64_t i = 1; i < count; ++i) text += concat(" ", word(random));
  return text;
}

/// Documents of two to four choices behind contexts of 1 to 60 words; every
/// fifth has a context of its own for each choice, as WinoGrande has.
inline eval::RequestBatch choice_requests(int documents) {
  Xoshiro256 random(3);
  eval::RequestBatch batch;
  for (int i = 0; i < documents; ++i) {
    const std::string context = words(random, 1 + random.below(60));
    const std::string same = concat(" ", words(random, 2));
    for (std::uint64_t j = 0; j < 2 + random.below(3); ++j) {
      const bool own = i % 5 == 4;
      batch.requests.push_back(
          {own ? concat(context, " ", word(random)) : context,
           own ? same : concat(" ", words(random, 1 + random.below(4))), "", "",
           i});
    }
  }
  return batch;
}

inline std::vector<eval::Answer> likelihoods(const eval::ModelSession& session,
                                             const eval::RequestBatch& batch) {
  return answers_of(*eval::likelihood_run(session, batch),
                    batch.requests.size());
}

/// Each request in a batch of its own.
inline std::vector<eval::Answer> likelihoods_alone(
    const eval::ModelSession& session, const eval::RequestBatch& batch) {
  std::vector<eval::Answer> all;
  for (const eval::Request& request : batch.requests) {
    eval::RequestBatch one;
    one.requests = {request};
    all.push_back(likelihoods(session, one).front());
  }
  return all;
}

}  // namespace osdn::test
