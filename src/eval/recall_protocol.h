#pragma once
// How a document of in-context recall becomes a prompt, and how that is gone on
// with: by protocol, the same for the sets of JRT and for generated records.

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "osdn/eval/jrt.h"
#include "osdn/eval/task.h"

namespace osdn::eval {

struct RecallProtocol {
  std::string_view name;
  enum Family {
    kWhole,        ///< no cut, JRT's prompts
    kJrt,          ///< cut around the answer, JRT's prompts
    kUpstream,     ///< the text as it is
    kOsdnAuthors,  ///< the OSDN authors' script, begin token and all
  } family;
  bool twice = false;
  bool stripped = true;  ///< kUpstream: text and label
};

/// Names of the protocols of these families, in the order of the table.
std::vector<std::string> protocol_names(
    std::initializer_list<RecallProtocol::Family> families);

/// Those of --protocol, else the task's first two. Throws Error (kUsage).
std::vector<RecallProtocol> recall_protocols(const TaskContext& context);

/// Adds the options that the prompts of --protocol, else of `usual`, read.
void add_recall_options(const EvalOptions& options, std::string_view usual,
                        std::vector<std::string>& names);

/// Cuts the document and makes its prompt; nothing for one that is left out:
/// its key is blank, or a cut key has at most one character. Throws Error
/// (kUsage) where the cut leaves no token.
std::optional<std::string> recall_prompt(const RecallProtocol& protocol,
                                         JrtSet set, const TaskContext& context,
                                         JrtDocument document);

/// What the prompts are run with. Throws Error (kUsage) for --trunc-side.
RequestBatch recall_batch(const RecallProtocol& protocol,
                          const EvalOptions& options);

/// What of it stands in a result's settings; null for nothing.
nlohmann::ordered_json recall_settings(const RecallProtocol& protocol,
                                       JrtSet set, const EvalOptions& options);

/// Documents that a protocol leaves out: counted in the task, the first one
/// named in a warning.
class LeftOut {
 public:
  void add(const std::string& place, PreparedTask& task);
  void warn(const std::string& name, const PreparedTask& task) const;

 private:
  std::string first_;
};

}  // namespace osdn::eval
