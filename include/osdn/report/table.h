#pragma once
// A text table with aligned columns.

#include <cstddef>
#include <string>
#include <vector>

namespace osdn::report {

enum class Align { kLeft, kRight };

struct Column {
  std::string title;
  Align align = Align::kRight;
};

class Table {
 public:
  explicit Table(std::vector<Column> columns);

  /// Throws Error when the number of cells is not the number of columns.
  void add_row(std::vector<std::string> cells);

  /// Title, rule, rows; each line ends with LF, none with spaces. Widths count
  /// code points.
  std::string text() const;

  std::size_t rows() const { return rows_.size(); }

 private:
  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace osdn::report
