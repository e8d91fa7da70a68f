#include "recall_protocol.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "osdn/core/concat.h"
#include "osdn/core/error.h"
#include "osdn/core/log.h"
#include "osdn/eval/python_text.h"
#include "recall_scores.h"

namespace osdn::eval {
namespace {

constexpr std::array<RecallProtocol, 8> kProtocols = {
    {{"once", RecallProtocol::kWhole},
     {"twice", RecallProtocol::kWhole, true},
     {"jrt-once", RecallProtocol::kJrt},
     {"jrt-twice", RecallProtocol::kJrt, true},
     {"upstream", RecallProtocol::kUpstream},
     {"upstream-v0", RecallProtocol::kUpstream, false, false},
     {"osdn-authors-once", RecallProtocol::kOsdnAuthors},
     {"osdn-authors-twice", RecallProtocol::kOsdnAuthors, true}}};

/// Tokens that the OSDN authors' script gives a prompt beyond its cut's length.
constexpr std::int64_t kPromptMargin = 64;

/// The cut, in tokens.
std::int64_t desired_tokens(const EvalOptions& options, JrtSet set) {
  // The files of nq are as long as their names say; the fork leaves them whole.
  const std::int64_t length =
      set == JrtSet::kNq ? 2000 : options.context_length;
  if (options.answer_length < 0 || length - options.answer_length < 1) {
    throw Error(concat("--context-length ", length, " with --answer-length ",
                       options.answer_length,
                       " leaves no token for the text; expected more than "
                       "the answer's"),
                ExitCode::kUsage);
  }
  return length - options.answer_length;
}

const RecallProtocol* find_protocol(std::string_view name) {
  const auto found =
      std::find_if(kProtocols.begin(), kProtocols.end(),
                   [&](const RecallProtocol& one) { return one.name == name; });
  return found == kProtocols.end() ? nullptr : &*found;
}

bool cuts(const RecallProtocol& protocol) {
  return protocol.family == RecallProtocol::kJrt ||
         protocol.family == RecallProtocol::kOsdnAuthors;
}

bool asks_with_key(JrtSet set) {
  return set == JrtSet::kFda || set == JrtSet::kSwde;
}

}  // namespace

std::vector<std::string> protocol_names(
    std::initializer_list<RecallProtocol::Family> families) {
  std::vector<std::string> names;
  for (const RecallProtocol& protocol : kProtocols) {
    if (std::find(families.begin(), families.end(), protocol.family) !=
        families.end()) {
      names.emplace_back(protocol.name);
    }
  }
  return names;
}

std::vector<RecallProtocol> recall_protocols(const TaskContext& context) {
  std::vector<RecallProtocol> all;
  for (const std::string& name : context.protocols(2)) {
    all.push_back(*find_protocol(name));
  }
  return all;
}

void add_recall_options(const EvalOptions& options, std::string_view usual,
                        std::vector<std::string>& names) {
  names.insert(names.end(), {"--protocol", "--bos"});
  const RecallProtocol* const protocol = find_protocol(
      options.protocol.empty() ? usual : std::string_view(options.protocol));
  if (!protocol) return;
  if (cuts(*protocol)) {
    names.insert(names.end(), {"--context-length", "--answer-length"});
  }
  const bool own_limit = protocol->family == RecallProtocol::kOsdnAuthors;
  names.emplace_back(own_limit ? "--trunc-side" : "--max-len");
}

std::optional<std::string> recall_prompt(const RecallProtocol& protocol,
                                         JrtSet set, const TaskContext& context,
                                         JrtDocument document) {
  if (protocol.family == RecallProtocol::kUpstream) {
    return protocol.stripped ? std::string(strip(document.text))
                             : document.text;
  }
  if (asks_with_key(set) && strip(document.key).empty()) return std::nullopt;
  if (protocol.family == RecallProtocol::kWhole) {
    return jrt_prompt(set, protocol.twice, document);
  }
  const tokenizer::Tokenizer& tokenizer = context.need_tokenizer();
  const std::int64_t desired = desired_tokens(context.options, set);
  if (protocol.family == RecallProtocol::kOsdnAuthors) {
    if (!cut_as_osdn_authors(set, protocol.twice, tokenizer, desired,
                             document)) {
      return std::nullopt;
    }
    return osdn_authors_prompt(set, protocol.twice, document);
  }
  if (!cut_around_answer(set, tokenizer, desired, document)) {
    return std::nullopt;
  }
  return jrt_prompt(set, protocol.twice, document);
}

RequestBatch recall_batch(const RecallProtocol& protocol,
                          const EvalOptions& options) {
  RequestBatch batch;
  batch.kind = RequestKind::kGeneration;
  batch.generation = {kRecallNewTokens, {"\n"}};
  if (protocol.family != RecallProtocol::kOsdnAuthors) return batch;
  // Their script lets the tokenizer cut, which by default drops the end.
  batch.bos = true;
  batch.generation.prompt_tokens = options.context_length + kPromptMargin;
  batch.generation.truncation =
      options.trunc_side == "left" ? Truncation::kLeft : Truncation::kRight;
  return batch;
}

nlohmann::ordered_json recall_settings(const RecallProtocol& protocol,
                                       JrtSet set, const EvalOptions& options) {
  if (!cuts(protocol)) return nullptr;
  return {{"cut_tokens", desired_tokens(options, set)}};
}

void LeftOut::add(const std::string& place, PreparedTask& task) {
  if (task.dropped++ == 0) first_ = place;
}

void LeftOut::warn(const std::string& name, const PreparedTask& task) const {
  if (task.dropped == 0) return;
  log::warn(name, ", ", task.protocol, ": ", task.dropped,
            " rows are left out, as their key, value or answer is too short to "
            "ask for; the first: ",
            first_);
}

}  // namespace osdn::eval
