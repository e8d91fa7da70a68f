#include "osdn/eval/shots.h"

#include "osdn/core/concat.h"

namespace osdn::eval {

std::string shots_of(const TaskContext& context,
                     const std::function<std::string(const Row&)>& solved) {
  const std::int64_t count = context.options.shots;
  if (count == 0) return "";
  const std::filesystem::path& file = *context.options.shots_file;
  const std::vector<Row> rows = read_rows(file, count).rows;
  if (std::ssize(rows) < count) {
    throw Error(concat(file.string(), " has ", rows.size(),
                       " rows, and --shots is ", count),
                ExitCode::kBadInput);
  }
  std::string text;
  for (const Row& row : rows) text += solved(row) + "\n\n";
  return text;
}

}  // namespace osdn::eval
