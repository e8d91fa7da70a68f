#include "tokens_of_run.h"

#include <vector>

#include "osdn/core/error.h"
#include "osdn/core/log.h"
#include "osdn/data/token_dataset.h"

namespace osdn::generate {

namespace fs = std::filesystem;

TokensOfRun tokens_of_run(const config::DataConfig& data) {
  if (!data.train.empty()) {
    try {
      const fs::path path =
          data::shard_files({fs::path(data.train.front())}).front();
      const data::TokenShard shard(path);
      return {path, shard.header().tokenizer_hash, true, shard.header().bos_id};
    } catch (const Error& error) {
      log::debug("the run's token shards say nothing: ", error.what());
    }
  }
  std::error_code missing;
  if (!data.tokenizer.empty() && fs::exists(data.tokenizer, missing)) {
    return {data.tokenizer, xxh3_128_of_file(data.tokenizer), false, {}};
  }
  return {};
}

}  // namespace osdn::generate
