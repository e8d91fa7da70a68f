#pragma once
// osdn-bench scaling: its options, table and JSON.

#include <CLI/CLI.hpp>
#include <memory>

#include "osdn/core/error.h"

namespace osdn::apps {

class ScalingCommand {
 public:
  /// Adds the subcommand.
  explicit ScalingCommand(CLI::App& app);
  ~ScalingCommand();

  bool parsed() const;
  ExitCode run();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace osdn::apps
