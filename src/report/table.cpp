#include "osdn/report/table.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "osdn/core/concat.h"
#include "osdn/core/error.h"

namespace osdn::report {

namespace {

std::size_t code_points(std::string_view text) {
  return static_cast<std::size_t>(std::count_if(
      text.begin(), text.end(),
      [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

constexpr std::string_view kGap = "  ";

}  // namespace

Table::Table(std::vector<Column> columns) : columns_(std::move(columns)) {}

void Table::add_row(std::vector<std::string> cells) {
  if (cells.size() != columns_.size()) {
    throw Error(concat("a table row has ", cells.size(), " cells, expected ",
                       columns_.size()));
  }
  rows_.push_back(std::move(cells));
}

std::string Table::text() const {
  std::vector<std::size_t> widths;
  for (std::size_t c = 0; c < columns_.size(); ++c) {
    std::size_t width = code_points(columns_[c].title);
    for (const auto& row : rows_) {
      width = std::max(width, code_points(row[c]));
    }
    widths.push_back(width);
  }
  std::string out;
  const auto put_line = [&](const auto& cell) {
    std::string line;
    for (std::size_t c = 0; c < columns_.size(); ++c) {
      const std::string& text = cell(c);
      const std::string fill(widths[c] - code_points(text), ' ');
      line += c == 0 ? "" : kGap;
      line += columns_[c].align == Align::kLeft ? text + fill : fill + text;
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + "\n";
  };
  put_line(
      [&](std::size_t c) -> const std::string& { return columns_[c].title; });
  std::vector<std::string> rules;
  for (const std::size_t width : widths) {
    rules.emplace_back(width, '-');
  }
  put_line([&](std::size_t c) -> const std::string& { return rules[c]; });
  for (const auto& row : rows_) {
    put_line([&](std::size_t c) -> const std::string& { return row[c]; });
  }
  return out;
}

}  // namespace osdn::report
