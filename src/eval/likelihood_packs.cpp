#include "osdn/eval/likelihood_packs.h"

#include <algorithm>
#include <utility>

#include "osdn/ops/chunk_length.h"

namespace osdn::eval {
namespace {

std::int64_t common_beginning(const TokenRow& a, const TokenRow& b) {
  const auto length = std::min(a.tokens.size(), b.tokens.size());
  const auto end = a.tokens.begin() + static_cast<std::ptrdiff_t>(length);
  return std::mismatch(a.tokens.begin(), end, b.tokens.begin()).first -
         a.tokens.begin();
}

std::int64_t shared_beginning(const RowGroup& group,
                              std::span<const TokenRow> rows) {
  const TokenRow& first = rows[group.rows.front()];
  std::int64_t shared = first.first_scored;
  for (const std::size_t i : group.rows) {
    shared = std::min(
        {shared, rows[i].first_scored, common_beginning(first, rows[i])});
  }
  if (group.rows.size() == 1) return 0;
  // Elsewhere than between chunks a cut would move scores in bf16. A state
  // costs no more to write and read than a chunk to run.
  return shared < ops::kChunk ? 0 : ops::whole_chunks(shared);
}

std::int64_t tokens_of(const RowGroup& group, std::span<const TokenRow> rows) {
  std::int64_t tokens = group.shared;
  for (const std::size_t i : group.rows) {
    tokens += rows[i].input_length() - group.shared;
  }
  return tokens;
}

std::int64_t bytes_of(const RowGroup& group, const PackLimits& limits) {
  return std::ssize(group.rows) *
         (limits.bytes_per_state + limits.bytes_per_token * group.shared);
}

void fill(const std::vector<RowGroup>& groups, bool sharing,
          std::span<const TokenRow> rows, const PackLimits& limits,
          std::vector<std::vector<RowGroup>>& packs) {
  std::int64_t tokens = 0, bytes = 0;
  bool open = false;
  for (const RowGroup& group : groups) {
    if ((group.shared > 0) != sharing) continue;
    tokens += tokens_of(group, rows);
    bytes += bytes_of(group, limits);
    if (!open || tokens > limits.tokens ||
        (sharing && bytes > limits.state_bytes)) {
      packs.emplace_back();
      tokens = tokens_of(group, rows);
      bytes = bytes_of(group, limits);
      open = true;
    }
    packs.back().push_back(group);
  }
}

}  // namespace

std::vector<RowGroup> row_groups(const RequestBatch& batch,
                                 std::span<const TokenRow> rows) {
  std::vector<RowGroup> groups;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const bool same =
        i > 0 && batch.requests[i].document == batch.requests[i - 1].document;
    if (!same) groups.emplace_back();
    groups.back().rows.push_back(i);
  }
  for (RowGroup& group : groups) group.shared = shared_beginning(group, rows);
  return groups;
}

std::vector<std::vector<RowGroup>> pack_groups(std::vector<RowGroup> groups,
                                               std::span<const TokenRow> rows,
                                               const PackLimits& limits) {
  std::stable_sort(groups.begin(), groups.end(),
                   [&](const RowGroup& a, const RowGroup& b) {
                     return tokens_of(a, rows) > tokens_of(b, rows);
                   });
  std::vector<std::vector<RowGroup>> packs;
  fill(groups, true, rows, limits, packs);
  fill(groups, false, rows, limits, packs);
  return packs;
}

}  // namespace osdn::eval
