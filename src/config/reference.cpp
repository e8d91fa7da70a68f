#include "osdn/config/reference.h"

#include "key_table.h"
#include "osdn/core/concat.h"
#include "presets.h"

namespace osdn::config {

namespace {

std::string initial_text(const Key& key) {
  if (key.required) {
    return "none: must be given";
  }
  if (!key.default_text.empty()) {
    return key.default_text;
  }
  const std::optional<Value> value = key.get(Config{});
  return value ? to_text(*value) : "none";
}

// A table cell: a bar would end it, and \* would be read as emphasis.
std::string cell(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '|' || c == '*') {
      out += '\\';
    }
    out += c;
  }
  return out;
}

struct PresetColumn {
  std::string title;
  PreconditionerConfig values;
};

PresetColumn preset_column(const std::string& title, const std::string& preset,
                           LayerKind layer, Retention retention) {
  ModelConfig model;
  model.layer = layer;
  model.preconditioner.preset = preset;
  model.preconditioner.retention = retention;
  return {title, preset_values(model)};
}

std::string preset_table() {
  const std::string runs = "published-runs";
  const std::vector<PresetColumn> columns = {
      preset_column("paper", "paper", LayerKind::kDeltaNet, Retention::kNone),
      preset_column("published-runs, deltanet", runs, LayerKind::kDeltaNet,
                    Retention::kNone),
      preset_column("published-runs, gdn; kda with retention", runs,
                    LayerKind::kGdn, Retention::kNone),
      preset_column("published-runs, kda without retention", runs,
                    LayerKind::kKda, Retention::kNone),
  };
  const std::vector<std::string> names = {
      "eta", "d_min", "d_max", "beta_aware", "norm", "d0_init", "detach"};
  std::string head = "| key |";
  std::string rule = "|---|";
  for (const PresetColumn& column : columns) {
    head += concat(" ", column.title, " |");
    rule += "---|";
  }
  std::string out = head + "\n" + rule + "\n";
  for (const std::string& name : names) {
    out += concat("| `", name, "` |");
    for (const PresetColumn& column : columns) {
      Config config;
      config.model.preconditioner = column.values;
      const Key* key = find_key("model.preconditioner." + name);
      out += concat(" ", to_text(key->get(config).value()), " |");
    }
    out += "\n";
  }
  return out;
}

constexpr std::string_view kIntroduction =
    R"(<!-- Made from src/config/key_table.cpp; tests/config/reference_test.cpp
     keeps it true and rewrites it with OSDN_UPDATE_DOCS=1. -->
# Configuration

A run is one JSON file (UTF-8, no comments, no trailing commas):

    osdn-train --config 340m_osdn_apf.json
    osdn-train --config 340m_osdn_apf.json --set optimizer.lr=5e-4 --set training.steps=100
    osdn-train --config 340m_osdn_apf.json --dry-run

* **Where it is looked for.** `--config NAME`, with or without `.json`: as a
  path; in the folders of `OSDN_CONFIG_PATH` (separated by colons); in
  `../share/osdn/configs` beside the program; in `configs/` of the source tree.
* **Overrides.** `--set a.b=value` replaces one key; the value is read as JSON
  (`0.1`, `true`, `["data/a", "data/b"]`, `{}`), else as a string. Later ones
  win. `--set a.b=null` takes the key out of the file, so that its default
  holds; a whole section can be taken out the same way.
* **Strictness.** Unknown and duplicate keys, wrong types, values out of range,
  keys that would have no effect and impossible combinations are all found
  before any work starts and are reported together, each with its place, what
  was found and what is allowed. Integers are written without point or exponent.
* **The resolved configuration** is what `--dry-run` prints and what is written
  beside every run: every key that has an effect, with its value. It can be
  loaded again and gives the same run.

"Only where" in the last column means: elsewhere the key would change nothing,
and naming it is an error.
)";

}  // namespace

std::vector<KeyInfo> known_keys() {
  std::vector<KeyInfo> keys;
  for (const Key& key : key_table()) {
    keys.push_back({key.path, key.pointer(), key.allowed(), initial_text(key),
                    key.condition, key.help});
  }
  return keys;
}

std::string reference_markdown() {
  std::string out(kIntroduction);
  for (const Section& section : section_table()) {
    out += section.path.empty() ? "\n## Top\n"
                                : concat("\n## `", section.path, "`\n");
    out += concat("\n", section.help, "\n\n",
                  "| key | value | default | meaning |\n|---|---|---|---|\n");
    for (const Key& key : key_table()) {
      if (key.section() != section.path) {
        continue;
      }
      out += concat("| `", key.name(), "` | ", cell(key.allowed()), " | ",
                    cell(initial_text(key)), " | ", cell(key.help));
      if (!key.condition.empty()) {
        out += concat(" Only where ", cell(key.condition), ".");
      }
      out += " |\n";
    }
    if (section.path == "model.preconditioner") {
      out += concat(
          "\n### Presets\n\n",
          "`paper` is the same for every layer. `published-runs` is what the "
          "published checkpoints were trained with; for the 340M DeltaNet run "
          "without retention, set `d_max` to 2. A key that is given keeps its "
          "value.\n\n",
          preset_table());
    }
  }
  return out;
}

}  // namespace osdn::config
